// Operators whose operands say which elements they touch.
#include <algorithm>

#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

bool IsIndex(const Type& type) { return type.is_tensor() && IsInteger(type.element); }

// Operands from `first` on: one scalar start for each dimension.
bool Starts(Check& c, size_t first, int rank) {
  if (!c.Require(c.num_in() == first + rank, "it needs one start index for each dimension")) {
    return false;
  }
  for (size_t i = first; i < c.num_in(); ++i) {
    if (!c.Require(IsScalar(c.in(i)) && IsIndex(c.in(i)), "a start index is no integer scalar")) {
      return false;
    }
  }
  return true;
}

void VerifyDynamicSlice(Check& c) {
  if (!c.Counts(-1) || !c.AllTensors() || !c.Require(c.num_in() >= 1, "it has no operand")) return;
  const Type& in = c.in();
  const auto* sizes = c.List("slice_sizes", in.rank());
  if (sizes == nullptr || !Starts(c, 1, in.rank())) return;
  for (int i = 0; i < in.rank(); ++i) {
    c.Require((*sizes)[i] >= 0 && (in.dim(i) == kDynamic || (*sizes)[i] <= in.dim(i)),
              "its slice_sizes exceed its operand");
  }
  c.Require(in.element == c.out().element, "its result has another element type");
  c.ResultDims({sizes->begin(), sizes->end()});
}

void VerifyDynamicUpdateSlice(Check& c) {
  if (!c.Counts(-1) || !c.AllTensors() || !c.Require(c.num_in() >= 2, "it has no update")) return;
  const Type& in = c.in();
  const Type& update = c.in(1);
  if (!Starts(c, 2, in.rank())) return;
  bool fits = update.rank() == in.rank() && update.element == in.element;
  for (int i = 0; fits && i < in.rank(); ++i) {
    fits = in.dim(i) == kDynamic || update.dim(i) <= in.dim(i);
  }
  c.Require(fits, "its update does not fit into its operand");
  c.SameAsOperand(0, 0);
}

// Dimension numbers shared by gather and scatter: which dimensions of the operand the index vectors
// and the windows speak of.
struct Numbers {
  const std::vector<int64_t>* window;          // of the result (gather) or the updates (scatter)
  const std::vector<int64_t>* collapsed;       // of the operand
  const std::vector<int64_t>* batching;        // of the operand
  const std::vector<int64_t>* index_batching;  // of the indices
  const std::vector<int64_t>* map;             // from the index vector to the operand
  int64_t index_vector;
};

// Checks the numbers; fills the sizes of the batch dimensions (of the indices, without the vector).
bool CheckNumbers(Check& c, const Numbers& n, const Type& operand, const Type& indices,
                  const Type& windowed, std::vector<Wide>& batch) {
  if (n.window == nullptr || n.collapsed == nullptr || n.batching == nullptr ||
      n.index_batching == nullptr || n.map == nullptr) {
    return false;
  }
  if (!c.Require(IsIndex(indices), "its indices are no integers") ||
      !c.Require(n.index_vector >= 0 && n.index_vector <= indices.rank(),
                 "its index_vector_dim is out of range")) {
    return false;
  }
  const int64_t vector_size =
      n.index_vector == indices.rank() ? 1 : indices.dim(static_cast<int>(n.index_vector));
  if (!c.Require(SameSize(vector_size, static_cast<int64_t>(n.map->size())),
                 "its index vectors have another length than its index map") ||
      !c.Require(n.batching->size() == n.index_batching->size(),
                 "its operand and its indices have different numbers of batching dimensions")) {
    return false;
  }
  for (const int64_t d : *n.batching) {
    const bool twice =
        std::find(n.collapsed->begin(), n.collapsed->end(), d) != n.collapsed->end() ||
        std::find(n.map->begin(), n.map->end(), d) != n.map->end();
    if (!c.Require(!twice, "a batching dimension has another role, too")) return false;
  }
  for (size_t i = 0; i < n.batching->size(); ++i) {
    const int64_t d = (*n.index_batching)[i];
    if (!c.Require(d != n.index_vector && SameSize(operand.dim(static_cast<int>((*n.batching)[i])),
                                                   indices.dim(static_cast<int>(d))),
                   "its batching dimensions differ in size")) {
      return false;
    }
  }
  const size_t in_window = n.window->size() + n.collapsed->size() + n.batching->size();
  if (!c.Require(static_cast<int>(in_window) == operand.rank(),
                 "its dimension numbers do not account for every dimension of its operand")) {
    return false;
  }
  for (int i = 0; i < indices.rank(); ++i) {
    if (i != n.index_vector) batch.push_back(indices.dim(i));
  }
  return c.Require(static_cast<int>(batch.size() + n.window->size()) == windowed.rank(),
                   "its windows and indices do not make up its shape");
}

// Interleaves the window's sizes (at `window`) and the batch's into one shape.
std::vector<Wide> Interleave(int rank, const std::vector<int64_t>& window,
                             const std::vector<Wide>& sizes, const std::vector<Wide>& batch) {
  std::vector<Wide> dims;
  size_t next_window = 0;
  size_t next_batch = 0;
  for (int i = 0; i < rank; ++i) {
    const bool in_window = std::find(window.begin(), window.end(), i) != window.end();
    dims.push_back(in_window ? sizes[next_window++] : batch[next_batch++]);
  }
  return dims;
}

bool Contains(const std::vector<int64_t>& list, int64_t d) {
  return std::find(list.begin(), list.end(), d) != list.end();
}

void VerifyGather(Check& c) {
  const bool dynamic = c.op().kind == OpKind::kDynamicGather;
  if (!c.Counts(dynamic ? 3 : 2) || !c.AllTensors()) return;
  const Type& operand = c.in(0);
  const Type& indices = c.in(1);
  const Numbers n = {c.Dimensions("offset_dims", c.out().rank()),
                     c.Dimensions("collapsed_slice_dims", operand.rank()),
                     c.Dimensions("operand_batching_dims", operand.rank()),
                     c.Dimensions("start_indices_batching_dims", indices.rank()),
                     c.Dimensions("start_index_map", operand.rank()),
                     c.op().Int("index_vector_dim")};
  std::vector<Wide> batch;
  if (!CheckNumbers(c, n, operand, indices, c.out(), batch)) return;
  c.Require(operand.element == c.out().element, "its result has another element type");
  if (dynamic) return;
  const auto* sizes = c.List("slice_sizes", operand.rank());
  if (sizes == nullptr) return;
  std::vector<Wide> window;
  for (int i = 0; i < operand.rank(); ++i) {
    const int64_t size = (*sizes)[i];
    const bool dropped = Contains(*n.collapsed, i) || Contains(*n.batching, i);
    if (!c.Require(size >= 0 && (operand.dim(i) == kDynamic || size <= operand.dim(i)) &&
                       (!dropped || size <= 1),
                   "its slice_sizes do not fit its operand")) {
      return;
    }
    if (!dropped) window.push_back(size);
  }
  c.ResultDims(Interleave(c.out().rank(), *n.window, window, batch));
}

void VerifyScatter(Check& c) {
  const size_t n_inputs = c.num_out();
  if (!c.Counts(-1, -1, 1) || !c.AllTensors() ||
      !c.Require(n_inputs >= 1 && c.num_in() == 2 * n_inputs + 1,
                 "its operands are not inputs, indices and as many updates")) {
    return;
  }
  const Type& operand = c.in(0);
  const Type& indices = c.in(n_inputs);
  const Type& updates = c.in(n_inputs + 1);
  const Numbers n = {c.Dimensions("update_window_dims", updates.rank()),
                     c.Dimensions("inserted_window_dims", operand.rank()),
                     c.Dimensions("input_batching_dims", operand.rank()),
                     c.Dimensions("scatter_indices_batching_dims", indices.rank()),
                     c.Dimensions("scatter_dims_to_operand_dims", operand.rank()),
                     c.op().Int("index_vector_dim")};
  std::vector<Wide> batch;
  if (!CheckNumbers(c, n, operand, indices, updates, batch)) return;
  std::vector<Wide> window;
  for (int d = 0; d < updates.rank(); ++d) {
    if (Contains(*n.window, d)) window.push_back(updates.dim(d));
  }
  size_t next = 0;
  for (int i = 0; i < operand.rank(); ++i) {
    if (Contains(*n.collapsed, i) || Contains(*n.batching, i)) continue;
    const Wide size = window[next++];
    c.Require(operand.dim(i) == kDynamic || size <= operand.dim(i),
              "its update windows exceed its operand");
  }
  const std::vector<Wide> dims = Interleave(updates.rank(), *n.window, window, batch);
  for (int i = 0; i < updates.rank(); ++i) {
    c.Require(dims[i] < 0 || SameSize(updates.dim(i), static_cast<int64_t>(dims[i])),
              "its updates do not fit its indices");
  }
  std::vector<ElementType> elements;
  for (size_t i = 0; i < n_inputs; ++i) {
    c.Require(SameShape(c.in(i), operand) && SameShape(c.in(n_inputs + 1 + i), updates),
              "its inputs or updates differ in shape");
    c.Require(c.in(n_inputs + 1 + i).element == c.in(i).element,
              "its updates have other elements than its inputs");
    c.SameAsOperand(i, i);
    elements.push_back(c.in(i).element);
  }
  c.Reducer(*c.op().regions[0], elements);
}

void VerifySort(Check& c) {
  if (!c.Counts(-1, -1, 1) || !c.AllTensors() ||
      !c.Require(c.num_in() >= 1 && c.num_in() == c.num_out(),
                 "it has not one result for each operand") ||
      !c.IntIn("dimension", 0, std::max(c.in().rank(), 1))) {
    return;
  }
  std::vector<ElementType> elements;  // two of each operand
  for (size_t i = 0; i < c.num_in(); ++i) {
    c.Require(SameShape(c.in(i), c.in()), "its operands differ in shape");
    c.SameAsOperand(i, i);
    elements.insert(elements.end(), 2, c.in(i).element);
  }
  c.ScalarRegion(*c.op().regions[0], elements, {ElementType::kI1});
}

void VerifyTorchIndexSelect(Check& c) {
  if (!c.Counts(2) || !c.AllTensors()) return;
  c.IntIn("dim", 0, c.in().rank());
  c.IntIn("batch_dims", 0, c.in().rank() + 1);
}

}  // namespace

void VerifyIndexing(Check& c) {
  switch (c.op().kind) {
    case OpKind::kDynamicSlice:
      return VerifyDynamicSlice(c);
    case OpKind::kDynamicUpdateSlice:
      return VerifyDynamicUpdateSlice(c);
    case OpKind::kGather:
    case OpKind::kDynamicGather:
      return VerifyGather(c);
    case OpKind::kScatter:
      return VerifyScatter(c);
    case OpKind::kSort:
      return VerifySort(c);
    case OpKind::kTorchIndexSelect:
      return VerifyTorchIndexSelect(c);
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
