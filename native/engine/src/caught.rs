//! The last edge: a panic of ours becomes a value, so that no caller in another language is unwound through.

use std::panic::{catch_unwind, AssertUnwindSafe};

#[cfg(panic = "abort")]
compile_error!("a build that aborts on a panic ends the guarded program: leave `panic` at unwind");

/// The native engine panicked; what it said could show a value, so nobody keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// What a caller is told where the engine panicked.
pub const FAILED: &str = "the native engine failed";

/// Run code of ours. What it worked on is thrown away where it panics, so nobody sees it half changed.
///
/// # Errors
/// `Failed`, where it panicked.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Failed> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Failed)
}

#[cfg(test)]
mod tests {
    use super::{caught, Failed};

    #[test]
    #[allow(clippy::indexing_slicing)] // to fail as code of ours would
    fn a_panic_is_a_value_and_the_next_run_is_none_the_worse() {
        let none: Vec<u8> = std::hint::black_box(Vec::new());
        assert_eq!(caught(|| none[0]), Err(Failed));
        assert_eq!(caught(|| none.len()), Ok(0));
    }

    #[test]
    #[allow(clippy::panic)] // with words of its own, which nobody keeps
    fn a_panic_in_a_thread_that_holds_a_lock_is_caught_there() {
        let lock = std::sync::Mutex::new(0_u8);
        let held = std::thread::scope(|scope| {
            let ran = scope.spawn(|| {
                caught(|| {
                    let _held = lock.lock();
                    panic!("an engine that fails says nothing of it");
                })
            });
            ran.join()
        });
        assert!(matches!(held, Ok(Err(Failed))));
    }
}
