#include "shardway/pjrt_plugin/cluster.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/raw_enum.h"
#include "shardway/base/status_macros.h"

namespace shardway::pjrt_plugin {
namespace {

SessionFactory& Factory() {
  static auto* const factory = new SessionFactory();
  return *factory;
}

// The settings, by option name.
class Settings {
 public:
  explicit Settings(absl::Span<const PJRT_NamedValue> options) : options_(options) {}

  std::optional<std::string> Text(std::string_view name) const {
    for (const PJRT_NamedValue& option : options_) {
      if (std::string_view(option.name, option.name_size) != name) continue;
      if (RawEnum(option.type) == PJRT_NamedValue_kString) {
        return std::string(option.string_value, option.value_size);
      }
      if (RawEnum(option.type) == PJRT_NamedValue_kInt64) {
        return absl::StrCat(option.int64_value);
      }
    }
    const char* value = std::getenv(Variable(name).c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }

  absl::StatusOr<int> Count(std::string_view name, int fallback) const {
    const std::optional<std::string> text = Text(name);
    if (!text.has_value()) return fallback;
    int count = 0;
    if (!absl::SimpleAtoi(*text, &count) || count < 1 || count > 65536) {
      return absl::InvalidArgumentError(
          absl::StrCat(Variable(name), "=\"", *text, "\" is not a number from 1 to 65536"));
    }
    return count;
  }

 private:
  static std::string Variable(std::string_view name) {
    return absl::StrCat("SHARDWAY_", absl::AsciiStrToUpper(std::string(name)));
  }

  absl::Span<const PJRT_NamedValue> options_;
};

// `shardway` beside this library, where the package has it.
absl::StatusOr<std::string> FindBinary(const Settings& settings) {
  if (std::optional<std::string> named = settings.Text("binary")) {
    if (::access(named->c_str(), X_OK) != 0) {
      return absl::NotFoundError(
          absl::StrCat("SHARDWAY_BINARY names ", *named, ", which is not a program"));
    }
    return *named;
  }
  Dl_info self;
  if (::dladdr(reinterpret_cast<const void*>(&FindBinary), &self) == 0 ||
      self.dli_fname == nullptr) {
    return absl::NotFoundError("the plugin cannot find its own file; set SHARDWAY_BINARY");
  }
  const std::filesystem::path beside =
      std::filesystem::path(self.dli_fname).parent_path() / "shardway";
  if (::access(beside.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("the program ", beside.string(),
                     " is missing; install the package again, or set SHARDWAY_BINARY"));
  }
  return beside.string();
}

}  // namespace

void SetSessionFactory(SessionFactory factory) { Factory() = std::move(factory); }

absl::StatusOr<std::unique_ptr<client::Session>> OpenSession(
    absl::Span<const PJRT_NamedValue> options) {
  if (Factory() != nullptr) return Factory()();

  const Settings settings(options);
  client::Session::Options session_options;
  session_options.client_name = absl::StrCat("pid ", ::getpid());
  if (const std::optional<std::string> address = settings.Text("address")) {
    return client::Session::Connect(*address, std::move(session_options));
  }
  client::Session::ClusterShape shape;
  SHARDWAY_ASSIGN_OR_RETURN(shape.islands, settings.Count("islands", 1));
  SHARDWAY_ASSIGN_OR_RETURN(shape.hosts, settings.Count("hosts", 1));
  SHARDWAY_ASSIGN_OR_RETURN(shape.devices, settings.Count("devices", 8));
  shape.plugin_path = settings.Text("plugin").value_or("");
  SHARDWAY_ASSIGN_OR_RETURN(const std::string binary, FindBinary(settings));
  return client::Session::StartPrivate(binary, shape, std::move(session_options));
}

}  // namespace shardway::pjrt_plugin
