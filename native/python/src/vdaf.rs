//! `Vdaf`: Prio3 for two aggregators; see `interlock.dap.backend`, which says what each argument is.

use interlock_vdaf as vdaf;
use interlock_vdaf::Refused;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyBytesMethods, PyString, PyTuple};

use crate::plan::guarded;

pyo3::create_exception!(
    interlock_native,
    RefusedShare,
    pyo3::exceptions::PyException,
    "What a peer sent and does not decode or does not verify; its argument is one line, without a value."
);

/// The fields of `interlock_vdaf::SealedShare`, in their order; then its claims.
type Report<'py> = ([Bound<'py, PyBytes>; 8], Vec<Claim<'py>>);

/// The fields of `interlock.base.claims.Claim`, in their order.
type Claim<'py> = (
    PyBackedStr,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

/// One Prio3 type with its parameters fixed; immutable, and safe to share between threads.
#[pyclass(frozen, module = "interlock_native")]
pub struct Vdaf {
    vdaf: vdaf::Vdaf,
}

#[pymethods]
impl Vdaf {
    /// Raises: `RefusedShare`, for a type or parameters that cannot be set up; Panicked.
    #[new]
    fn new(algorithm_id: u32, config: &[u8]) -> PyResult<Self> {
        let vdaf = done(guarded(|| vdaf::Vdaf::new(algorithm_id, config))?)?;
        Ok(Self { vdaf })
    }

    /// How many random bytes `shard` takes.
    #[getter]
    fn rand_size(&self) -> usize {
        self.vdaf.rand_size()
    }

    /// The public share, the leader's and the helper's input share. Raises: `ValueError`, Panicked.
    #[allow(clippy::needless_pass_by_value)] // read out of a list
    fn shard<'py>(
        &self,
        py: Python<'py>,
        ctx: &[u8],
        measurement: Vec<u64>,
        nonce: &[u8],
        rand: &[u8],
    ) -> PyResult<[Bound<'py, PyBytes>; 3]> {
        let run = || self.vdaf.shard(ctx, &measurement, nonce, rand);
        let (public, [leader, helper]) = done(guarded(|| py.detach(run))?)?;
        Ok([public, leader, helper].map(|part| PyBytes::new(py, &part)))
    }

    /// A state and a verifier share. Raises: `RefusedShare`, `ValueError`, Panicked.
    #[allow(clippy::too_many_arguments)] // those of the protocol
    fn verify_init<'py>(
        &self,
        py: Python<'py>,
        verify_key: &[u8],
        ctx: &[u8],
        agg_id: i64,
        nonce: &[u8],
        public_share: &[u8],
        input_share: &[u8],
    ) -> PyResult<[Bound<'py, PyBytes>; 2]> {
        let agg_id = usize::try_from(agg_id).unwrap_or(usize::MAX);
        let run = || {
            self.vdaf
                .verify_init(verify_key, ctx, agg_id, nonce, public_share, input_share)
        };
        let (state, share) = done(guarded(|| py.detach(run))?)?;
        Ok([state, share].map(|part| PyBytes::new(py, &part)))
    }

    /// The message. Raises: `RefusedShare`, `ValueError`, Panicked.
    #[allow(clippy::needless_pass_by_value)] // read out of a list
    fn verifier_shares_to_message<'py>(
        &self,
        py: Python<'py>,
        ctx: &[u8],
        shares: Vec<Bound<'py, PyBytes>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let shares: Vec<_> = shares.iter().map(PyBytesMethods::as_bytes).collect();
        let run = || self.vdaf.verifier_shares_to_message(ctx, &shares);
        told(py, guarded(|| py.detach(run))?)
    }

    /// The output share. Raises: `RefusedShare`, Panicked.
    fn verify_next<'py>(
        &self,
        py: Python<'py>,
        state: &[u8],
        message: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        told(py, guarded(|| self.vdaf.verify_next(state, message))?)
    }

    /// The sum of output or aggregate shares. Raises: `RefusedShare`, Panicked.
    #[allow(clippy::needless_pass_by_value)] // read out of a list
    fn merge<'py>(
        &self,
        py: Python<'py>,
        shares: Vec<Bound<'py, PyBytes>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let shares: Vec<_> = shares.iter().map(PyBytesMethods::as_bytes).collect();
        told(py, guarded(|| py.detach(|| self.vdaf.merge(&shares)))?)
    }

    /// The leader's first step of each report of a job: (state, message) or a fault's name.
    ///
    /// A report is (nonce, public share, public key, private key, encapsulated key, sealed share, associated data,
    /// the leader's message or nothing), and its claims as in `failing`. Raises: `ValueError`, Panicked.
    #[allow(clippy::needless_pass_by_value)] // read out of a list
    fn leader_job<'py>(
        &self,
        py: Python<'py>,
        verify_key: &[u8],
        ctx: &[u8],
        info: &[u8],
        reports: Vec<Report<'py>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let job = vdaf::Job {
            verify_key,
            ctx,
            info,
        };
        let reports = reports.iter().map(sealed).collect::<PyResult<Vec<_>>>()?;
        let run = || self.vdaf.leader_job(&job, &reports);
        verdicts(py, done(guarded(|| py.detach(run))?)?)
    }

    /// The helper's only step of each report of a job: (output share, message) or a fault's name; see `leader_job`.
    #[allow(clippy::needless_pass_by_value)] // read out of a list
    fn helper_job<'py>(
        &self,
        py: Python<'py>,
        verify_key: &[u8],
        ctx: &[u8],
        info: &[u8],
        reports: Vec<Report<'py>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let job = vdaf::Job {
            verify_key,
            ctx,
            info,
        };
        let reports = reports.iter().map(sealed).collect::<PyResult<Vec<_>>>()?;
        let run = || self.vdaf.helper_job(&job, &reports);
        verdicts(py, done(guarded(|| py.detach(run))?)?)
    }

    /// The field elements of an aggregate share. Raises: `RefusedShare`, Panicked.
    fn decode_agg_share(&self, share: &[u8]) -> PyResult<Vec<u128>> {
        done(guarded(|| self.vdaf.decode_agg_share(share))?)
    }
}

/// The places of the reports that have a signature which does not hold, of (scheme, key, message, signature) each.
///
/// Raises: `ValueError`, Panicked.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // read out of a list
pub fn failing(py: Python<'_>, reports: Vec<Vec<Claim<'_>>>) -> PyResult<Vec<usize>> {
    let reports = reports.iter().map(|all| claims_of(all));
    let reports = reports.collect::<PyResult<Vec<_>>>()?;
    guarded(|| py.detach(|| vdaf::failing(&reports)))
}

fn sealed<'a>((report, claims): &'a Report<'_>) -> PyResult<vdaf::SealedShare<'a>> {
    let [nonce, public_share, public, private, enc, payload, aad, inbound] = report;
    Ok(vdaf::SealedShare {
        nonce: nonce.as_bytes(),
        public_share: public_share.as_bytes(),
        key: vdaf::KeyPair {
            public: public.as_bytes(),
            private: private.as_bytes(),
        },
        enc: enc.as_bytes(),
        payload: payload.as_bytes(),
        aad: aad.as_bytes(),
        inbound: inbound.as_bytes(),
        claims: claims_of(claims)?,
    })
}

fn claims_of<'a>(all: &'a [Claim<'_>]) -> PyResult<Vec<vdaf::Claim<'a>>> {
    let claims = all.iter().map(|(scheme, key, message, signature)| {
        let scheme = vdaf::Scheme::named(scheme);
        Ok(vdaf::Claim {
            scheme: scheme.ok_or_else(|| PyValueError::new_err("no such scheme of signatures"))?,
            key: key.as_bytes(),
            message: message.as_bytes(),
            signature: signature.as_bytes(),
        })
    });
    claims.collect()
}

fn verdicts(py: Python<'_>, found: Vec<vdaf::Verdict>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let told = found.into_iter().map(|verdict| match verdict {
        Ok((kept, sent)) => {
            let parts = [kept, sent].map(|part| PyBytes::new(py, &part));
            Ok(PyTuple::new(py, parts)?.into_any())
        }
        Err(fault) => Ok(PyString::new(py, fault.name()).into_any()),
    });
    told.collect()
}

fn told(py: Python<'_>, found: Result<Vec<u8>, Refused>) -> PyResult<Bound<'_, PyBytes>> {
    done(found).map(|bytes| PyBytes::new(py, &bytes))
}

fn done<T>(found: Result<T, Refused>) -> PyResult<T> {
    found.map_err(|refused| match refused {
        Refused::Caller(what) => PyValueError::new_err(what),
        Refused::Peer(what) => RefusedShare::new_err(what),
    })
}
