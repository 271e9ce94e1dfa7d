"""Python callbacks of programs that run on the cluster: debug.print, pure_callback, io_callback.

JAX lowers all of them through one function, `emit_python_callback`, whose CPU rule emits a call of a
handler private to jaxlib, which only jaxlib's own CPU backend has. install() puts ours in its place:
for our backend it emits a custom call `shardway.callback` with a number; the worker that reaches it
sends the operands to this process, which looks the number up, runs the callable and sends the results
back. For every other backend JAX's own function does the work.

The callable lives as long as JAX keeps the module that calls it.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import functools
import itertools
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import callback as jax_callback
from jax._src import config, core, dtypes, source_info_util
from jax._src import ffi as jax_ffi
from jax._src.interpreters import mlir
from jax._src.lib import xla_client as xc

from shardway.ownership import is_ours

TARGET = "shardway.callback"


@dataclasses.dataclass(frozen=True)
class _Callable:
    """A user's function with what its operands and results look like. Tokens carry no bytes."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]  # abstract values
    results: tuple[Any, ...]
    token: bool  # a token comes before the operands, and is returned before the results

    def __call__(self, operands: Sequence[bytes]) -> list[bytes]:
        if self.token:
            operands = operands[1:]
        arrays = [
            np.frombuffer(data, dtype=aval.dtype).reshape(aval.shape)
            for data, aval in zip(operands, self.operands, strict=True)
        ]
        values = self.function(*arrays)
        if len(values) != len(self.results):
            raise RuntimeError(
                "Mismatched number of outputs from callback. "
                f"Expected: {len(self.results)}, Actual: {len(values)}"
            )
        encoded = [
            _encode(i, value, aval)
            for i, (value, aval) in enumerate(zip(values, self.results, strict=True))
        ]
        return [b"", *encoded] if self.token else encoded


def _encode(index: int, value: Any, aval: Any) -> bytes:
    array = np.asarray(value)
    if array.shape != aval.shape:
        raise RuntimeError(
            f"Incorrect output shape for return value #{index}: "
            f"Expected: {aval.shape}, Actual: {array.shape}"
        )
    if array.dtype != aval.dtype:
        # Without x64 a float64 of NumPy's is meant as a float32.
        if dtypes.canonicalize_dtype(array.dtype) != aval.dtype:
            raise RuntimeError(
                f"Incorrect output dtype for return value #{index}: "
                f"Expected: {aval.dtype}, Actual: {array.dtype}"
            )
        array = array.astype(aval.dtype)
    return np.ascontiguousarray(array).tobytes()


class _Registry:
    """Numbers for callables. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = itertools.count(1)
        self._callables: dict[int, _Callable] = {}

    def add(self, function: _Callable) -> int:
        with self._lock:
            number = next(self._next)
            self._callables[number] = function
            return number

    def remove(self, number: int) -> None:
        with self._lock:
            self._callables.pop(number, None)

    def get(self, number: int) -> _Callable:
        with self._lock:
            return self._callables[number]


_registry = _Registry()


class _Keepalive:
    """Kept by a module; the callable goes with it, and with the last run that may call it: JAX lets go
    of a module as soon as its last run is on its way."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __del__(self) -> None:
        _retire(self._number)


def _retire(number: int) -> None:
    if not _installed:
        _registry.remove(number)
        return
    library, _, retired = _installed
    library.shardway_callback_retire(number, retired)


def _emit(
    jax_emit: Callable[..., Any],
    ctx: Any,
    callback: Callable[..., Any],
    token: Any | None,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
    **more: Any,
) -> tuple[Sequence[Any], Any, Any]:
    if not is_ours(ctx.module_context.get_backend()):
        return jax_emit(
            ctx,
            callback,
            token,
            operands,
            operand_avals,
            result_avals,
            has_side_effect=has_side_effect,
            returns_token=returns_token,
            partitioned=partitioned,
            sharding=sharding,
            **more,
        )
    ordered = bool(token)
    if ordered:
        operands = [token, *operands]
        ctx, sharding = _with_token(ctx, sharding)
    number = _registry.add(_Callable(callback, tuple(operand_avals), tuple(result_avals), ordered))
    ctx.module_context.add_keepalive(_Keepalive(number))
    lower = jax_ffi.build_ffi_lowering_function(TARGET, has_side_effect=has_side_effect)
    attributes: dict[str, Any] = {"callback": np.int64(number), "name": _name(ctx, callback)}
    device = _calling_device(sharding)
    if device is not None:
        attributes["device"] = np.int64(device)
    call = lower(ctx, *operands, **attributes)
    if sharding is not None:
        # JAX 0.10 put the module's context first.
        where = (ctx.module_context,) if jax.__version_info__ >= (0, 10) else ()
        mlir.set_sharding(*where, call, sharding)
    results = list(call.results)
    if ordered:
        token, *results = results
    return results, token, None


def _name(ctx: Any, callback: Callable[..., Any]) -> str:
    """What messages call it: the user's function and where it is called from."""
    function: Any = callback
    for _ in range(8):  # JAX wraps it in closures, partials and small classes
        inner = getattr(function, "callback_func", None) or getattr(function, "func", None)
        if inner is None and hasattr(function, "__code__"):
            cells = dict(
                zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            )
            inner = cells["callback"].cell_contents if "callback" in cells else None
        if not callable(inner):
            break
        function = inner
    name = getattr(function, "__qualname__", type(function).__qualname__)
    frame = next(iter(source_info_util.user_frames(ctx.traceback)), None)
    return f"{name} at {frame.file_name}:{frame.start_line}" if frame is not None else name


def _calling_device(sharding: Any) -> int | None:
    """The one logical device that makes the call for the whole program; None when each makes it."""
    if isinstance(sharding, jax_callback.SdyArrayList):
        devices = sharding.shardings[0].logical_device_ids
        return devices[0] if devices else None
    if sharding is not None and sharding.type == xc.OpSharding.Type.MAXIMAL:
        return sharding.tile_assignment_devices[0]
    return None


def _with_token(ctx: Any, sharding: Any) -> tuple[Any, Any]:
    """The context and sharding of a call that takes and returns a token first."""
    if (
        config.use_shardy_partitioner.value
        and len(ctx.avals_out) > 0
        and isinstance(sharding, jax_callback.SdyArrayList)
    ):
        sharding = jax_callback.SdyArrayList(
            (
                jax_callback.SdyArray(
                    mesh_shape=(),
                    dim_shardings=(),
                    logical_device_ids=sharding.shardings[0].logical_device_ids,
                ),
                *sharding.shardings,
            )
        )
    ctx = dataclasses.replace(
        ctx,
        avals_in=[core.abstract_token, *ctx.avals_in],
        avals_out=[core.abstract_token, *ctx.avals_out],
    )
    return ctx, sharding


# The library's side: shardway/pjrt_plugin/host_callback.h.
_DISPATCHER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.c_void_p,
)


def _dispatcher(library: ctypes.CDLL) -> Any:
    add_result = library.shardway_callback_result
    add_result.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    add_result.restype = None
    set_error = library.shardway_callback_error
    set_error.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    set_error.restype = None

    def dispatch(
        number: int, device: int, count: int, data: Any, sizes: Any, reply: ctypes.c_void_p
    ) -> None:
        try:
            operands = [
                ctypes.string_at(data[i], sizes[i]) if sizes[i] else b"" for i in range(count)
            ]
            for result in _registry.get(number)(operands):
                add_result(reply, result, len(result))
        except BaseException:  # whatever the user's function raises fails the run, not this thread
            message = traceback.format_exc().encode()
            set_error(reply, message, len(message))

    return _DISPATCHER(dispatch)


_installed: list[Any] = []  # what C holds pointers to


def install(library_path: Path) -> None:
    """Routes the callbacks of our backend's programs through us. Once per process."""
    if _installed:
        return
    library = ctypes.CDLL(str(library_path))
    set_dispatcher = library.shardway_set_callback_dispatcher
    set_dispatcher.argtypes = [ctypes.c_void_p]
    set_dispatcher.restype = None
    dispatcher = _dispatcher(library)
    retired = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(_registry.remove)
    library.shardway_callback_retire.argtypes = [ctypes.c_uint64, type(retired)]
    library.shardway_callback_retire.restype = None
    _installed.extend([library, dispatcher, retired])
    set_dispatcher(ctypes.cast(dispatcher, ctypes.c_void_p))
    atexit.register(set_dispatcher, None)  # no Python from other threads once it ends
    jax_emit = jax_callback.emit_python_callback
    jax_callback.emit_python_callback = functools.wraps(jax_emit)(
        functools.partial(_emit, jax_emit)
    )
