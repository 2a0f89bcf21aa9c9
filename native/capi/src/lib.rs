//! C ABI of interlock's native engine. The committed header is `include/interlock.h`.

/// The version of the contract that this library speaks; a caller that expects another must not go on.
// SAFETY: the name is interlock's own prefix, so no other symbol of the program can have it.
#[unsafe(no_mangle)]
pub extern "C" fn il_abi_version() -> u32 {
    interlock_engine::ABI_VERSION
}

#[cfg(test)]
mod tests {
    #[test]
    fn c_callers_see_the_engines_version() {
        assert_eq!(super::il_abi_version(), interlock_engine::ABI_VERSION);
    }
}
