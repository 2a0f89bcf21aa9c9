//! The native engine of interlock: bytes and values in, decisions out; no I/O, no clock, no unsafe code.
//!
//! `plan` compiles the rules of a policy that run here, `evaluate` judges an event by them. The Python engine is the
//! reference: what the two say differs in nothing, and `tests/conformance` and the suites in Python hold them to it.

pub mod analysis;
pub mod argpath;
mod ascii;
pub mod canonical;
pub mod caught;
pub mod conditions;
pub mod context;
pub mod deeds;
pub mod detectors;
pub mod edits;
pub mod evaluate;
pub mod fast;
pub mod glob;
pub mod index;
pub mod json;
pub mod literals;
pub mod matching;
pub mod normalise;
pub mod numbers;
pub mod pattern;
pub mod plan;
mod prints;
pub mod rx;
pub mod touched;
pub mod value;

/// The version of the contract between this crate and its callers (Python through `PyO3`, C through `capi`).
///
/// It rises with every change that an older caller could misread; a caller that expects another version must
/// not use the library.
pub const ABI_VERSION: u32 = 4;

#[cfg(test)]
mod tests {
    use super::ABI_VERSION;

    #[test]
    fn the_contract_has_a_version() {
        assert_eq!(ABI_VERSION, 4);
    }
}
