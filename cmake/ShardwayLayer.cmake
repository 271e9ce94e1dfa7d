# One CMake rule for every folder under shardway/.
#
# shardway_layer(NAME [LIBS lib...] [TEST_LIBS lib...])
#   * every *.cc of the folder (tests and mains aside) becomes the static library shardway_NAME;
#   * the layers that layers.txt allows are linked, so the include graph and the link graph are one;
#   * every *_test.cc becomes part of one GoogleTest program, NAME_test, known to CTest under the label NAME.
# A folder's sub-folders belong to it.

file(STRINGS ${PROJECT_SOURCE_DIR}/shardway/layers.txt SHARDWAY_LAYER_LINES REGEX "^[a-z_]+:")

function(shardway_layer NAME)
  cmake_parse_arguments(ARG "" "" "LIBS;TEST_LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_main|_fuzz)\\.cc$")

  set(allowed "")
  foreach(line ${SHARDWAY_LAYER_LINES})
    if(line MATCHES "^${NAME}:(.*)$")
      string(REGEX MATCHALL "[a-z_]+" allowed "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(TRANSFORM allowed PREPEND shardway_)
  set(present "")
  foreach(lib ${allowed})
    if(TARGET ${lib})
      list(APPEND present ${lib})
    endif()
  endforeach()

  if(sources)
    add_library(shardway_${NAME} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(shardway_${NAME} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(shardway_${NAME} ${scope} ${PROJECT_SOURCE_DIR})
  target_link_libraries(shardway_${NAME} ${scope} ${present} ${ARG_LIBS} shardway_flags)

  if(tests AND SHARDWAY_TESTS)
    add_executable(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE shardway_${NAME} ${ARG_TEST_LIBS}
      GTest::gmock GTest::gtest_main)
    gtest_discover_tests(${NAME}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300 LABELS ${NAME}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
endfunction()
