// What the verifier's rules are written in: the operator under test, its first fault, and the
// checks that many operators share. Private to shardway/ir.
//
// A rule states its checks in order and stops at the first that fails:
//
//   void VerifyTranspose(Check& c) {
//     if (!c.Counts(1, 1) || !c.AllTensors()) return;
//     …
//   }
//
// Sizes known only at run time (kDynamic) agree with any size. Arithmetic on attributes is in 128
// bits, because attributes can hold any int64.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardway/ir/module.h"

namespace shardway::ir::verify {

using Wide = __int128;

inline bool SameSize(int64_t a, int64_t b) { return a == b || a == kDynamic || b == kDynamic; }
bool SameShape(const Type& a, const Type& b);
// Equal up to sizes known only at run time.
bool SameType(const Type& a, const Type& b);
inline bool IsScalar(const Type& type) { return type.is_tensor() && type.rank() == 0; }

class Check {
 public:
  Check(const Module& module, const Op& op) : module_(module), op_(op) {}

  const Module& module() const { return module_; }
  const Op& op() const { return op_; }
  const Type& in(size_t i = 0) const { return op_.operands[i]->type; }
  const Type& out(size_t i = 0) const { return op_.results[i]->type; }
  size_t num_in() const { return op_.operands.size(); }
  size_t num_out() const { return op_.results.size(); }

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  // Records the fault (the first one stays); returns false.
  bool Fail(std::string_view what);
  bool Require(bool condition, std::string_view what) { return condition || Fail(what); }

  // Exact numbers of operands, results and regions; -1 for any.
  bool Counts(int operands, int results = 1, int regions = 0);
  bool AllTensors();
  bool ResultDims(const std::vector<Wide>& dims, size_t result = 0);
  bool SameAsOperand(size_t result, size_t operand);

  // A list attribute of this length (-1: any).
  const std::vector<int64_t>* List(std::string_view name, int64_t size = -1);
  // A list of distinct dimensions below `rank`.
  const std::vector<int64_t>* Dimensions(std::string_view name, int rank);
  // An integer attribute of this type in [low, high).
  bool IntIn(std::string_view name, int64_t low, int64_t high,
             ElementType type = ElementType::kI64);

  // The region's arguments have exactly these types and it returns exactly those.
  bool Signature(const Region& region, const std::vector<Type>& arguments,
                 const std::vector<Type>& results);
  // The region maps scalars of these elements to scalars: the body of a reduction, a sort, a map.
  bool ScalarRegion(const Region& region, const std::vector<ElementType>& arguments,
                    const std::vector<ElementType>& results);
  // The body of a reduction: for each of `elements` an accumulator, then for each one that is
  // combined with it, to the accumulators. The wider accumulators that StableHLO allows are not
  // taken: JAX makes none, and parts are combined as what they are.
  bool Reducer(const Region& region, const std::vector<ElementType>& elements);

 private:
  const Module& module_;
  const Op& op_;
  absl::Status status_;
};

std::vector<Type> TypesOf(const std::vector<Value*>& values);

// The rules, one family of operators per file. Each checks c.op() if it belongs to the family.
void VerifyElementwise(Check& c);
void VerifyShape(Check& c);
void VerifyIndexing(Check& c);
void VerifyContraction(Check& c);
void VerifyReduction(Check& c);
void VerifyControl(Check& c);
void VerifyCollective(Check& c);
void VerifyShardy(Check& c);
void VerifyShardingRule(Check& c);

// "": the sharding fits a value of this type in this module; otherwise the fault.
std::string ShardingFault(const Module& module, const SdySharding& sharding, const Type& type);
// The same for a value of this type that the operator uses or makes.
void VerifySharding(Check& c, const SdySharding& sharding, const Type& type);
std::string MeshFault(const SdyMesh& mesh);

}  // namespace shardway::ir::verify
