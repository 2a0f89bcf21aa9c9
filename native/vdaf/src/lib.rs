//! Where whole aggregation jobs will run natively: bytes in, bytes out.
//!
//! In this form it holds the wire version only; the arithmetic runs on the Python reference.

/// The VERSION byte of the VDAF wire format that interlock speaks (draft-irtf-cfrg-vdaf-18 and later).
pub const VDAF_VERSION: u8 = 18;

#[cfg(test)]
mod tests {
    use super::VDAF_VERSION;

    #[test]
    fn the_wire_version_is_that_of_draft_18() {
        assert_eq!(VDAF_VERSION, 18);
    }
}
