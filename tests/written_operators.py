"""Operators that JAX does not write itself, as functions of arrays: other front ends may write them.

Each is text of StableHLO in a program of JAX's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

Shapes = Sequence[jax.ShapeDtypeStruct]
ELEMENTS = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "bool": "i1"}

_text = core.Primitive("stablehlo_text")
_text.multiple_results = True


@_text.def_abstract_eval
def _(*_: Any, body: str, results: tuple[Any, ...]) -> list[Any]:
    del body
    return [jax.core.ShapedArray(shape, dtype) for shape, dtype in results]


def _lower(context: Any, *operands: Any, body: str, results: tuple[Any, ...]) -> Any:
    from jax._src.interpreters.mlir import merge_mlir_modules

    module = ir.Module.parse(body)
    name = merge_mlir_modules(context.module_context.module, "written", module)
    types = [ir.Type.parse(_type(jax.ShapeDtypeStruct(*r))) for r in results]
    return func.CallOp(types, ir.FlatSymbolRefAttr.get(name), operands).results


mlir.register_lowering(_text, _lower)


def _type(x: Any) -> str:
    return f"tensor<{''.join(f'{d}x' for d in x.shape)}{ELEMENTS[np.dtype(x.dtype).name]}>"


def like(x: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, x.dtype)


def program(lines: Sequence[str], operands: Sequence[Any], results: Shapes) -> Any:
    """Of %a0, %a1, …; the last line defines %r, or %r:2 and so on."""
    arguments = ", ".join(f"%a{i}: {_type(x)}" for i, x in enumerate(operands))
    types = ", ".join(map(_type, results))
    many = ["%r"] if len(results) == 1 else [f"%r#{i}" for i in range(len(results))]
    text = "\n".join(
        [
            f"module @written {{ func.func public @main({arguments}) -> ({types}) {{",
            *lines,
            f"return {', '.join(many)} : {types} }} }}",
        ]
    )
    shapes = tuple((tuple(r.shape), np.dtype(r.dtype)) for r in results)
    values = _text.bind(*operands, body=text, results=shapes)
    return values[0] if len(results) == 1 else tuple(values)


def operator(name: str, operands: Sequence[Any], results: Shapes, attributes: str = "") -> Any:
    """Operands that are lists are constants of the program."""
    lines, names, types = [], [], []
    arrays: list[Any] = []
    for i, x in enumerate(operands):
        if isinstance(x, list):
            value = np.array(x, np.int32)
            lines.append(f"%c{i} = stablehlo.constant dense<{x}> : {_type(value)}")
            names.append(f"%c{i}")
            types.append(_type(value))
        else:
            names.append(f"%a{len(arrays)}")
            types.append(_type(x))
            arrays.append(x)
    many = "%r" if len(results) == 1 else f"%r:{len(results)}"
    out = ", ".join(map(_type, results))
    given = f" {{{attributes}}}" if attributes else ""
    lines.append(
        f'{many} = "stablehlo.{name}"({", ".join(names)}){given} : ({", ".join(types)}) -> ({out})'
    )
    return program(lines, arrays, results)


# ---- the operators ----


def dot(a: jax.Array, b: jax.Array) -> Any:
    return operator("dot", [a, b], [like(a, *a.shape[:-1], *b.shape[1:])])


def einsum(config: str, *operands: jax.Array) -> Any:
    result = jax.eval_shape(lambda *x: jnp.einsum(config, *x), *operands)
    name = "einsum" if len(operands) == 2 else "unary_einsum"
    return operator(name, operands, [result], f'einsum_config = "{config}"')


def _features(feature: int) -> str:
    return f"epsilon = 0.001 : f32, feature_index = {feature} : i64"


def batch_norm_training(x: jax.Array, scale: jax.Array, offset: jax.Array, feature: int) -> Any:
    return operator(
        "batch_norm_training", [x, scale, offset], [x, scale, scale], _features(feature)
    )


def batch_norm_inference(x: jax.Array, *vectors: jax.Array, feature: int) -> Any:
    return operator("batch_norm_inference", [x, *vectors], [x], _features(feature))


def batch_norm_grad(x: jax.Array, *rest: jax.Array, feature: int) -> Any:
    scale = rest[0]
    return operator("batch_norm_grad", [x, *rest], [x, scale, scale], _features(feature))


def torch_index_select(x: jax.Array, indices: jax.Array, dim: int, batch: int = 0) -> Any:
    shape = (*x.shape[:dim], *indices.shape[batch:], *x.shape[dim + 1 :])
    attributes = f"dim = {dim} : i64, batch_dims = {batch} : i64"
    return operator("torch_index_select", [x, indices], [like(x, *shape)], attributes)


def broadcast(x: jax.Array, *sizes: int) -> Any:
    attributes = f"broadcast_sizes = array<i64: {', '.join(map(str, sizes))}>"
    return operator("broadcast", [x], [like(x, *sizes, *x.shape)], attributes)


def dynamic_broadcast_in_dim(x: jax.Array, *sizes: int) -> Any:
    shape = [*sizes, *x.shape]
    dims = ", ".join(str(len(sizes) + d) for d in range(x.ndim))
    attributes = f"broadcast_dimensions = array<i64: {dims}>"
    return operator("dynamic_broadcast_in_dim", [x, shape], [like(x, *shape)], attributes)


def dynamic_reshape(x: jax.Array, *shape: int) -> Any:
    return operator("dynamic_reshape", [x, list(shape)], [like(x, *shape)])


def dynamic_iota(x: jax.Array, dim: int) -> Any:
    """As many numbers as `x` has."""
    return operator("dynamic_iota", [list(x.shape)], [x], f"iota_dimension = {dim} : i64")


def dynamic_pad(x: jax.Array, value: jax.Array, padding: Sequence[tuple[int, int, int]]) -> Any:
    result = jax.eval_shape(lambda v, w: lax.pad(v, w, padding), x, value)
    columns = [list(column) for column in zip(*padding, strict=True)]
    return operator("dynamic_pad", [x, value, *columns], [result])


def dynamic_gather(x: jax.Array, indices: jax.Array) -> Any:
    """Rows of a matrix."""
    numbers = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
    attributes = f"dimension_numbers = #stablehlo.gather<{numbers}, index_vector_dim = 1>"
    result = like(x, indices.shape[0], x.shape[1])
    return operator("dynamic_gather", [x, indices, [1, x.shape[1]]], [result], attributes)


def dynamic_conv(x: jax.Array, kernel: jax.Array, padding: int) -> Any:
    """As JAX's own `lax.conv` has its dimensions."""
    dims = "dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>"
    attributes = f"{dims}, feature_group_count = 1 : i64, batch_group_count = 1 : i64"
    sides = [(padding, padding)] * 2
    result = jax.eval_shape(lambda v, k: lax.conv(v, k, (1, 1), sides), x, kernel)
    return operator("dynamic_conv", [x, kernel, [list(s) for s in sides]], [result], attributes)


def real_dynamic_slice(
    x: jax.Array, start: jax.Array, sizes: Sequence[int], strides: list[int]
) -> Any:
    limit = start + np.array([n * s for n, s in zip(sizes, strides, strict=True)], np.int32)
    return operator("real_dynamic_slice", [x, start, limit, strides], [like(x, *sizes)])


def rows_times(x: jax.Array) -> Any:
    """Each element, times the number of rows."""
    scalar = jax.ShapeDtypeStruct((), np.int32)
    rows = operator("get_dimension_size", [x], [scalar], "dimension = 0 : i64")
    return x * rows.astype(x.dtype)


def second_of_tuple(x: jax.Array, y: jax.Array) -> Any:
    kind = f"tuple<{_type(x)}, {_type(y)}>"
    lines = [
        f"%t = stablehlo.tuple %a0, %a1 : {kind}",
        f"%r = stablehlo.get_tuple_element %t[1] : ({kind}) -> {_type(y)}",
    ]
    return program(lines, [x, y], [y])
