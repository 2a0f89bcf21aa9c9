//! Blind RSA signatures for membership tokens; see `interlock.base.blind_rsa`, which says what each argument is.

use interlock_membership::Refused;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::plan::guarded;

/// The blinded message and the inverse of the blinding factor. Raises: `ValueError`, Panicked.
#[pyfunction]
pub fn rsabssa_blind(
    py: Python<'_>,
    public: &[u8],
    prepared: &[u8],
    salt: &[u8],
    factor: &[u8],
) -> PyResult<(Vec<u8>, Vec<u8>)> {
    done(guarded(|| {
        py.detach(|| interlock_membership::blind(public, prepared, salt, factor))
    })?)
}

/// A blind signature. Raises: `ValueError`, Panicked.
#[pyfunction]
pub fn rsabssa_blind_sign(py: Python<'_>, private: &[u8], blinded: &[u8]) -> PyResult<Vec<u8>> {
    done(guarded(|| {
        py.detach(|| interlock_membership::blind_sign(private, blinded))
    })?)
}

/// The signature, verified. Raises: `ValueError`, Panicked.
#[pyfunction]
pub fn rsabssa_finalize(
    py: Python<'_>,
    public: &[u8],
    prepared: &[u8],
    blind_signature: &[u8],
    inverse: &[u8],
) -> PyResult<Vec<u8>> {
    let run = || interlock_membership::finalize(public, prepared, blind_signature, inverse);
    done(guarded(|| py.detach(run))?)
}

/// Nothing, where the signature verifies. Raises: `ValueError`, Panicked.
#[pyfunction]
pub fn rsabssa_verify(
    py: Python<'_>,
    public: &[u8],
    prepared: &[u8],
    signature: &[u8],
) -> PyResult<()> {
    done(guarded(|| {
        py.detach(|| interlock_membership::verify(public, prepared, signature))
    })?)
}

fn done<T>(found: Result<T, Refused>) -> PyResult<T> {
    found.map_err(|refused| PyValueError::new_err(refused.told()))
}
