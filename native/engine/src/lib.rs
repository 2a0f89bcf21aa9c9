//! The native engine of interlock: bytes and values in, decisions out; no I/O, no clock, no unsafe code.
//!
//! In this form it holds the contract's version and the canonical encoding that both engines' digests stand on.
//! Evaluation runs on the Python engine, which stays the reference that a native one is tested against.

pub mod analysis;
pub mod canonical;
pub mod value;

/// The version of the contract between this crate and its callers (Python through `PyO3`, C through `capi`).
///
/// It rises with every change that an older caller could misread; a caller that expects another version must
/// not use the library.
pub const ABI_VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::ABI_VERSION;

    #[test]
    fn the_contract_has_a_version() {
        assert_eq!(ABI_VERSION, 1);
    }
}
