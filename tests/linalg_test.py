"""jnp.linalg and jax.scipy.linalg on the workers' LAPACK, against NumPy and the definitions."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
BATCHES: list[tuple[int, ...]] = [(), (3,)]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def random_matrix(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    """A standard normal array of `shape`; complex types get an imaginary part too."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def hermitian(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def check(actual: jax.Array | np.ndarray, expected: np.ndarray) -> None:
    single = np.finfo(np.asarray(actual).dtype).bits == 32
    np.testing.assert_allclose(
        actual, expected, rtol=2e-3 if single else 1e-9, atol=2e-3 if single else 1e-9
    )


each = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
batched = pytest.mark.parametrize("batch", BATCHES, ids=str)


@each
@batched
def test_cholesky(dtype: type, batch: tuple[int, ...]) -> None:
    x = random_matrix((*batch, 5, 5), dtype)
    a = x @ hermitian(x) + 5 * np.eye(5, dtype=dtype)
    c = jax.jit(jnp.linalg.cholesky)(a)
    check(c @ hermitian(np.asarray(c)), a)
    assert np.allclose(np.triu(c, 1), 0)


@each
@batched
@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (4, 6)], ids=str)
def test_qr(dtype: type, batch: tuple[int, ...], shape: tuple[int, int]) -> None:
    a = random_matrix((*batch, *shape), dtype)
    q, r = jax.jit(jnp.linalg.qr)(a)
    check(np.asarray(q) @ np.asarray(r), a)
    check(
        hermitian(np.asarray(q)) @ np.asarray(q),
        np.broadcast_to(np.eye(min(shape)), (*batch, min(shape), min(shape))),
    )


@each
@batched
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (4, 6)], ids=str)
def test_svd(dtype: type, batch: tuple[int, ...], full: bool, shape: tuple[int, int]) -> None:
    a = random_matrix((*batch, *shape), dtype)
    u, s, vt = (np.asarray(x) for x in jnp.linalg.svd(a, full_matrices=full))
    k = min(shape)
    check((u[..., :, :k] * s[..., None, :]) @ vt[..., :k, :], a)
    check(s, np.linalg.svd(a, compute_uv=False))
    check(jnp.linalg.svd(a, compute_uv=False), s)


@each
@batched
def test_eigh(dtype: type, batch: tuple[int, ...]) -> None:
    x = random_matrix((*batch, 6, 6), dtype)
    a = x + hermitian(x)
    w, v = (np.asarray(x) for x in jax.jit(jnp.linalg.eigh)(a))
    check((v * w[..., None, :]) @ hermitian(v), a)
    check(jnp.linalg.eigvalsh(a), np.linalg.eigvalsh(a))


@each
@batched
def test_eig(dtype: type, batch: tuple[int, ...]) -> None:
    a = random_matrix((*batch, 5, 5), dtype)
    w, v = (np.asarray(x) for x in jnp.linalg.eig(a))
    check(a @ v, v * w[..., None, :])


@each
@batched
def test_solve_and_inverse(dtype: type, batch: tuple[int, ...]) -> None:
    a = random_matrix((*batch, 5, 5), dtype) + 3 * np.eye(5, dtype=dtype)
    b = random_matrix((*batch, 5, 2), dtype, seed=1)
    check(a @ np.asarray(jax.jit(jnp.linalg.solve)(a, b)), b)
    check(a @ np.asarray(jnp.linalg.inv(a)), np.broadcast_to(np.eye(5), a.shape))
    check(jnp.linalg.det(a), np.linalg.det(a))


@each
def test_lu(dtype: type) -> None:
    a = random_matrix((6, 4), dtype)
    p, l, u = (np.asarray(x) for x in jax.scipy.linalg.lu(a))
    check(p @ l @ u, a)


@each
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(dtype: type, lower: bool, trans: int, unit: bool) -> None:
    full = random_matrix((5, 5), dtype) * 0.2 + 2 * np.eye(5, dtype=dtype)
    a = np.tril(full) if lower else np.triu(full)
    if unit:
        np.fill_diagonal(a, 1)
    b = random_matrix((5, 3), dtype, seed=1)
    x = np.asarray(
        jax.scipy.linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)
    )
    ops: list[Callable[..., np.ndarray]] = [lambda m: m, np.transpose, hermitian]
    check(ops[trans](a) @ x, b)


@each
def test_schur_and_hessenberg(dtype: type) -> None:
    a = random_matrix((5, 5), dtype)
    t, z = (
        np.asarray(x)
        for x in jax.scipy.linalg.schur(a, output="complex" if np.iscomplexobj(a) else "real")
    )
    check(z @ t @ hermitian(z), a)
    h, q = (np.asarray(x) for x in jax.scipy.linalg.hessenberg(a, calc_q=True))
    check(q @ h @ hermitian(q), a)
    assert np.allclose(np.tril(h, -2), 0, atol=1e-4)


@each
def test_qr_multiply_and_pivoted_qr(dtype: type) -> None:
    a = random_matrix((6, 4), dtype)
    q, r, p = (np.asarray(x) for x in jax.scipy.linalg.qr(a, mode="economic", pivoting=True))
    check(q @ r, a[:, p])


@each
def test_tridiagonal(dtype: type) -> None:
    n = 6
    dl, d, du = (random_matrix((n,), dtype, seed=s) for s in range(3))
    d = d + 5
    dl[0] = du[-1] = 0
    b = random_matrix((n, 2), dtype, seed=4)
    dense = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    check(dense @ np.asarray(jax.lax.linalg.tridiagonal_solve(dl, d, du, b)), b)
    x = random_matrix((n, n), dtype)
    a = x + hermitian(x)
    _, diagonal, off, _ = jax.lax.linalg.tridiagonal(a)
    tri = np.diag(np.asarray(diagonal)) + np.diag(np.asarray(off), 1) + np.diag(np.asarray(off), -1)
    check(np.linalg.eigvalsh(tri).astype(tri.dtype), np.linalg.eigvalsh(a))


def test_failed_factorisation_gives_nans() -> None:
    c = np.asarray(jnp.linalg.cholesky(-np.eye(3)))
    assert np.isnan(c[np.tril_indices(3)]).all()


def test_gradient_through_solve() -> None:
    a = random_matrix((4, 4), np.float64) + 3 * np.eye(4)
    b = random_matrix((4,), np.float64, seed=1)
    grad = jax.grad(lambda b: jnp.linalg.solve(a, b).sum())(b)
    check(grad, np.linalg.solve(a.T, np.ones(4)))
