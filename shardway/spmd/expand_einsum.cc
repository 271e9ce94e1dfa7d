// dot, einsum and unary_einsum, as one dot_general:
//
//   aab,bc->ca    diagonals (aa)          select by iota, then a sum
//                 labels of one operand   summed before the product
//                 labels of both          batched where the result has them, contracted otherwise
//                 the rest of each        in their order, as dot_general has it; then transposed
//
// A dimension of size 1 whose label is larger elsewhere is repeated, as with NumPy; "..." are
// labels counted from the last one.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/expansion.h"

namespace shardway::spmd {
namespace {

using Labels = std::vector<int>;
constexpr int kUnnamed = 256;  // of the last dimension in "..."; + 1 of the one before it

bool Has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
int64_t PlaceOf(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

// A term of the config: one label for each of `rank` dimensions, or nullopt.
std::optional<Labels> LabelsOf(std::string_view term, int rank) {
  Labels labels;
  size_t at = 0;
  int unnamed = 0;
  for (const char c : term) unnamed -= c != '.' && c != ' ' ? 1 : 0;
  unnamed += rank;
  while (at < term.size()) {
    const char c = term[at];
    if (c == '.' && term.substr(at, 3) == "..." && unnamed >= 0) {
      while (unnamed > 0) labels.push_back(kUnnamed + --unnamed);
      at += 3;
      unnamed = -1;  // only once
      continue;
    }
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != ' ') return std::nullopt;
    if (c != ' ') labels.push_back(static_cast<unsigned char>(c));
    ++at;
  }
  if (static_cast<int>(labels.size()) != rank) return std::nullopt;
  return labels;
}

struct Term {
  ir::Value* x;
  Labels labels;
};

// Without its dimensions that `drop` names.
Term Without(ir::Builder& b, Term term, const Labels& drop, bool summed) {
  std::vector<int64_t> dims;
  ir::Dims kept;
  Labels labels;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (Has(drop, term.labels[i])) {
      dims.push_back(static_cast<int64_t>(i));
    } else {
      kept.push_back(term.x->type.dims[i]);
      labels.push_back(term.labels[i]);
    }
  }
  if (dims.empty()) return term;
  ir::Value* x = summed ? SumOver(b, term.x, std::move(dims)) : b.Reshape(term.x, kept);
  return {x, std::move(labels)};
}

// Each label once: of dimensions that share one, the diagonal.
Term Diagonal(ir::Builder& b, Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    for (size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[j] != term.labels[i]) continue;
      const ir::Type places = ir::Type::Tensor(ElementType::kI64, term.x->type.dims);
      ir::Value* on = b.Compare("EQ", b.Iota(places, static_cast<int64_t>(i)),
                                b.Iota(places, static_cast<int64_t>(j)));
      ir::Value* rest = b.SplatInt(term.x->type, 0);
      term.x = SumOver(b, b.Select(on, term.x, rest), {static_cast<int64_t>(j)});
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(j));
      --j;
    }
  }
  return term;
}

Term Product(ir::Builder& b, const Term& left, const Term& right, const Labels& result,
             ElementType element) {
  Labels labels;
  ir::Dims dims;
  std::vector<int64_t> batch[2], contracted[2];
  for (const int label : result) {
    if (!Has(left.labels, label) || !Has(right.labels, label)) continue;
    batch[0].push_back(PlaceOf(left.labels, label));
    batch[1].push_back(PlaceOf(right.labels, label));
    labels.push_back(label);
    dims.push_back(left.x->type.dims[batch[0].back()]);
  }
  for (const int label : left.labels) {
    if (Has(result, label) || !Has(right.labels, label)) continue;
    contracted[0].push_back(PlaceOf(left.labels, label));
    contracted[1].push_back(PlaceOf(right.labels, label));
  }
  for (const auto& [mine, other] : {std::pair(&left, &right), std::pair(&right, &left)}) {
    for (size_t i = 0; i < mine->labels.size(); ++i) {
      if (Has(other->labels, mine->labels[i])) continue;
      labels.push_back(mine->labels[i]);
      dims.push_back(mine->x->type.dims[i]);
    }
  }
  ir::AttrDict attributes;
  ir::Set(attributes, "lhs_batching_dimensions", std::move(batch[0]));
  ir::Set(attributes, "rhs_batching_dimensions", std::move(batch[1]));
  ir::Set(attributes, "lhs_contracting_dimensions", std::move(contracted[0]));
  ir::Set(attributes, "rhs_contracting_dimensions", std::move(contracted[1]));
  ir::Value* operands[] = {left.x, right.x};
  const ir::Type type = ir::Type::Tensor(element, dims);
  return {b.Create(ir::OpKind::kDotGeneral, operands, {&type, 1}, std::move(attributes))->result(),
          std::move(labels)};
}

// "ab,bc->ac" for these operands and result; what is wrong with it otherwise.
std::string_view Parse(const ir::Op& op, std::vector<Term>& terms, Labels& result) {
  std::string_view config = op.String("einsum_config");
  const size_t arrow = config.find("->");
  if (arrow == std::string_view::npos) return "its config has no result";
  const std::string_view last = config.substr(arrow + 2);
  config = config.substr(0, arrow);
  const size_t comma = std::min(config.find(','), config.size());
  if ((comma < config.size()) != (op.operands.size() == 2)) {
    return "its config is for another number of operands";
  }
  for (ir::Value* x : op.operands) {
    const std::string_view term =
        terms.empty() ? config.substr(0, comma) : config.substr(comma + 1);
    const std::optional<Labels> labels = LabelsOf(term, x->type.rank());
    if (!labels) return "its config does not fit an operand";
    terms.push_back({x, *labels});
  }
  const std::optional<Labels> labels = LabelsOf(last, op.result()->type.rank());
  if (!labels) return "its config does not fit its result";
  result = *labels;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!Has(terms.front().labels, result[i]) && !Has(terms.back().labels, result[i]))
      return "its result has a dimension that no operand has";
    if (PlaceOf(result, result[i]) != static_cast<int64_t>(i))
      return "its result has a dimension twice";
  }
  return "";
}

}  // namespace

Expansion ExpandDot(const ir::Op& op, ir::Builder& b) {
  const ir::Type& lhs = op.operand(0)->type;
  ir::AttrDict attributes = op.attributes;
  ir::Set(attributes, "lhs_batching_dimensions", std::vector<int64_t>{});
  ir::Set(attributes, "rhs_batching_dimensions", std::vector<int64_t>{});
  ir::Set(attributes, "lhs_contracting_dimensions", std::vector<int64_t>{lhs.rank() - 1});
  ir::Set(attributes, "rhs_contracting_dimensions", std::vector<int64_t>{0});
  const ir::Type& type = op.result()->type;
  return b.Create(ir::OpKind::kDotGeneral, op.operands, {&type, 1}, std::move(attributes))->results;
}

Expansion ExpandEinsum(const ir::Op& op, ir::Builder& b) {
  std::vector<Term> terms;
  Labels result;
  if (const std::string_view fault = Parse(op, terms, result); !fault.empty())
    return Malformed(op, fault);
  absl::flat_hash_map<int, int64_t> sizes;
  for (const Term& term : terms) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const int64_t here = term.x->type.dims[i];
      int64_t& size = sizes.try_emplace(term.labels[i], 1).first->second;
      if (size == 1) size = here;
      const bool diagonal = here == term.x->type.dims[PlaceOf(term.labels, term.labels[i])];
      if ((here != size && here != 1) || !diagonal)
        return Malformed(op, "dimensions of one label differ in size");
    }
  }
  for (Term& term : terms) {
    Labels repeated;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (term.x->type.dims[i] == 1 && sizes[term.labels[i]] != 1)
        repeated.push_back(term.labels[i]);
    }
    term = Diagonal(b, Without(b, term, repeated, /*summed=*/false));
  }
  for (Term& term : terms) {
    const Term& other = &term == &terms.front() ? terms.back() : terms.front();
    Labels alone;
    for (const int label : term.labels) {
      const bool elsewhere = terms.size() == 2 && Has(other.labels, label);
      if (!elsewhere && !Has(result, label)) alone.push_back(label);
    }
    term = Without(b, term, alone, /*summed=*/true);
  }
  const ElementType element = op.result()->type.element;
  Term all = terms.size() == 1 ? terms[0] : Product(b, terms[0], terms[1], result, element);
  std::vector<int64_t> order;
  for (const int label : result) order.push_back(PlaceOf(all.labels, label));
  if (!std::is_sorted(order.begin(), order.end())) all.x = b.Transpose(all.x, order);
  return std::vector<ir::Value*>{b.Convert(all.x, element)};
}

}  // namespace shardway::spmd
