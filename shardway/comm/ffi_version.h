// XLA asks every handler which version of the FFI it was built for, and refuses one that is newer
// than its own. Newer minor versions only add to the interface and our handlers need no addition,
// so they answer with the plugin's version where the headers that we build with are newer.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shardway/base/raw_enum.h"
#include "xla/ffi/api/c_api.h"

namespace shardway::comm {

// The question's extension; null when `frame` is a call.
inline XLA_FFI_Metadata* MetadataOf(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension == nullptr || RawEnum(extension->type) != XLA_FFI_Extension_Metadata)
    return nullptr;
  return reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
}

inline void AnswerVersion(const XLA_FFI_CallFrame* frame, XLA_FFI_Metadata* metadata) {
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version =
      std::min<int>(XLA_FFI_API_MINOR, frame->api->api_version.minor_version);
}

// `kHandler`, for plugins of older versions too.
template <XLA_FFI_Handler* kHandler>
XLA_FFI_Error* AnyVersion(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = kHandler(frame);
  if (XLA_FFI_Metadata* metadata = MetadataOf(frame)) AnswerVersion(frame, metadata);
  return error;
}

}  // namespace shardway::comm
