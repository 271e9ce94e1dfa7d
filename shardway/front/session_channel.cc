#include "shardway/front/session_channel.h"

#include <utility>

#include "shardway/base/logging.h"
#include "shardway/controller/boundary_proto.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/validate.h"

namespace shardway::front {
namespace {

using controller::SessionEvents;

void ToProto(const SessionEvents::CompileDone& done, wire::Compiled* proto) {
  proto->set_program(done.program);
  if (!done.result.ok()) {
    wire::ToProto(done.result.status(), proto->mutable_status());
    return;
  }
  const compile::Partitioned& program = *(*done.result)->program;
  proto->set_name(program.name);
  for (const compile::Boundary& parameter : program.parameters) {
    controller::ToProto(parameter, proto->add_parameters());
  }
  for (const compile::Boundary& result : program.results) {
    controller::ToProto(result, proto->add_results());
  }
  for (const compile::Inspection& inspection : program.inspections) {
    wire::InspectionProto& one = *proto->add_inspections();
    one.set_callback(inspection.callback);
    one.set_op_sharding(inspection.op_sharding);
  }
  proto->set_flops_per_device(program.flops_per_device);
  proto->set_text(program.text);
}

}  // namespace

void SessionChannel::Deliver(SessionEvents events) {
  wire::Batch batch(*channel_);
  wire::ServerMessage message;
  if (!events.ended.empty() || !events.failures.empty()) {
    wire::Done& done = *message.mutable_done();
    done.mutable_seqs()->Assign(events.ended.begin(), events.ended.end());
    for (const SessionEvents::Failure& failure : events.failures) {
      wire::Done::Failure& proto = *done.add_failures();
      proto.set_seq(failure.seq);
      wire::ToProto(failure.status, proto.mutable_status());
    }
    Send(message);
  }
  for (SessionEvents::ReadDone& read : events.reads) {
    wire::ReadDone& proto = *message.mutable_read_done();
    proto.Clear();
    proto.set_request(read.request);
    if (!read.status.ok()) {
      wire::ToProto(read.status, proto.mutable_status());
    }
    proto.set_data(std::move(read.data));
    Send(message);
  }
  for (const SessionEvents::CompileDone& compiled : events.compiled) {
    message.mutable_compiled()->Clear();
    ToProto(compiled, message.mutable_compiled());
    Send(message);
  }
  for (const SessionEvents::MemoryStats& stats : events.memory) {
    wire::MemoryStats& proto = *message.mutable_memory_stats();
    proto.set_request(stats.request);
    proto.set_bytes_in_use(stats.bytes_in_use);
    proto.set_bytes_limit(stats.bytes_limit);
    Send(message);
  }
  for (SessionEvents::Callback& callback : events.callbacks) {
    wire::Callback& proto = *message.mutable_callback();
    proto.Clear();
    proto.set_call(callback.call);
    proto.set_callback(callback.callback);
    proto.set_device(callback.device);
    for (std::string& operand : callback.operands) {
      proto.add_operands(std::move(operand));
    }
    Send(message);
  }
}

void SessionChannel::Send(const google::protobuf::MessageLite& message) {
  if (const absl::Status status = outbox_.Send(message.SerializeAsString()); !status.ok()) {
    LOG_INFO("a client is not there any more: {}", status.ToString());
    channel_->Close();
  }
}

}  // namespace shardway::front
