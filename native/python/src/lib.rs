//! Python binding of interlock's native engine: convert, call, convert; no logic.

mod heap;
mod intents;
mod membership;
mod plan;
mod read;
mod vdaf;

/// The native part of interlock; version-locked to the Python package.
#[pyo3::pymodule]
mod interlock_native {
    use pyo3::prelude::{pyfunction, Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use crate::intents::intents;
    #[pymodule_export]
    use crate::membership::{rsabssa_blind, rsabssa_blind_sign, rsabssa_finalize, rsabssa_verify};
    #[pymodule_export]
    use crate::plan::{BadPlan, Panicked, Plan};
    #[pymodule_export]
    use crate::vdaf::{failing, RefusedShare, Vdaf};

    /// The version of the contract that this build speaks; the Python side checks it once.
    #[pyfunction]
    fn abi_version() -> u32 {
        interlock_engine::ABI_VERSION
    }

    /// The version of the plans that this build compiles; one that does not fit is a wheel of another day.
    #[pyfunction]
    fn plan_version() -> u64 {
        interlock_engine::plan::VERSION
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // A panic ends as an exception; its message could show a value, so it is not printed.
        std::panic::set_hook(Box::new(|_| {}));
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
