//! C ABI of interlock's native engine. The committed header is `include/interlock.h`.

use std::cell::RefCell;
use std::ffi::{c_char, CString};
use std::ptr;

use interlock_engine::caught::{caught, FAILED};
use interlock_engine::json::{json_of_outcome, EventDoc};
use interlock_engine::plan::{Plan, Verdict};

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// A compiled plan.
#[allow(non_camel_case_types)] // as C names it
pub struct il_plan(Plan);

/// A decision, and its text.
#[allow(non_camel_case_types)] // as C names it
pub struct il_decision {
    verdict: Verdict,
    json: CString,
}

/// The version of the contract that this library speaks; a caller that expects another must not go on.
// SAFETY: the name is interlock's own prefix, so no other symbol of the program can have it.
#[unsafe(no_mangle)]
pub extern "C" fn il_abi_version() -> u32 {
    interlock_engine::ABI_VERSION
}

/// Compile a plan; null where it is none, and `il_last_error` says why.
///
/// # Safety
/// `json` is null, or points to `size` bytes.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn il_plan_new(json: *const u8, size: usize) -> *mut il_plan {
    // SAFETY: the caller says that there are `size` bytes.
    let Some(bytes) = (unsafe { bytes_of(json, size) }) else {
        return failed("the plan is null");
    };
    told(|| {
        Plan::new(bytes).map(il_plan).map_err(|bad| {
            let first = bad.into_iter().next();
            first.map_or_else(String::new, |bad| match bad.at {
                Some(at) => format!("rule {at} {}", bad.what),
                None => bad.what,
            })
        })
    })
}

/// Free a plan.
///
/// # Safety
/// `plan` is null, or came from `il_plan_new` and was not freed.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn il_plan_free(plan: *mut il_plan) {
    if !plan.is_null() {
        // SAFETY: it is a box that `told` let go of, and nobody else frees it.
        drop(unsafe { Box::from_raw(plan) });
    }
}

/// Judge an event; null where it cannot be read, and `il_last_error` says why.
///
/// # Safety
/// `plan` is null or a living plan; `event` is null, or points to `size` bytes.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn il_evaluate(
    plan: *const il_plan,
    event: *const u8,
    size: usize,
) -> *mut il_decision {
    // SAFETY: the caller says that the plan lives and that there are `size` bytes.
    let (plan, bytes) = unsafe { (plan.as_ref(), bytes_of(event, size)) };
    let (Some(plan), Some(bytes)) = (plan, bytes) else {
        return failed("the plan or the event is null");
    };
    told(|| decision(&plan.0, bytes))
}

fn decision(plan: &Plan, event: &[u8]) -> Result<il_decision, String> {
    let doc = EventDoc::new(event)?;
    let outcome = plan.evaluate(doc.event()?, doc.wrapped);
    let json = CString::new(json_of_outcome(&outcome).to_string());
    Ok(il_decision {
        verdict: outcome.decision.verdict,
        json: json.map_err(|_| "the decision holds a NUL".to_owned())?,
    })
}

/// The verdict; block for null.
///
/// # Safety
/// `decision` is null or a living decision.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn il_decision_verdict(decision: *const il_decision) -> i32 {
    // SAFETY: the caller says that it lives.
    let decision = unsafe { decision.as_ref() };
    decision.map_or(Verdict::Block, |decision| decision.verdict) as i32
}

/// The decision as JSON, ended by NUL.
///
/// # Safety
/// `decision` is null or a living decision.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn il_decision_json(decision: *const il_decision) -> *const c_char {
    // SAFETY: the caller says that it lives.
    let decision = unsafe { decision.as_ref() };
    decision.map_or(ptr::null(), |decision| decision.json.as_ptr())
}

/// Free a decision.
///
/// # Safety
/// `decision` is null, or came from `il_evaluate` and was not freed.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn il_decision_free(decision: *mut il_decision) {
    if !decision.is_null() {
        // SAFETY: it is a box that `told` let go of, and nobody else frees it.
        drop(unsafe { Box::from_raw(decision) });
    }
}

/// What went wrong in the last failed call of this thread.
// SAFETY: the name is interlock's own prefix.
#[unsafe(no_mangle)]
pub extern "C" fn il_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|error| error.as_ref().map_or(ptr::null(), |text| text.as_ptr()))
}

/// The bytes that a caller shows.
///
/// # Safety
/// `data` is null, or points to `size` bytes that stay as they are for `'c`.
unsafe fn bytes_of<'c>(data: *const u8, size: usize) -> Option<&'c [u8]> {
    if data.is_null() || size > isize::MAX.unsigned_abs() {
        return None;
    }
    // SAFETY: it is not null, and the caller says that there are `size` bytes.
    Some(unsafe { std::slice::from_raw_parts(data, size) })
}

/// What `run` makes, for the caller to free; null where it fails or panics.
fn told<T>(run: impl FnOnce() -> Result<T, String>) -> *mut T {
    match caught(run) {
        Ok(Ok(made)) => {
            LAST_ERROR.set(None);
            Box::into_raw(Box::new(made))
        }
        Ok(Err(what)) => failed(&what),
        Err(_) => failed(FAILED),
    }
}

fn failed<T>(what: &str) -> *mut T {
    LAST_ERROR.set(CString::new(what.replace('\0', " ")).ok());
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::ptr;

    const PLAN: &[u8] = br#"{"format": "interlock-plan", "v": 4, "abi": 4, "rules": []}"#;

    #[test]
    fn c_callers_see_the_engines_version() {
        assert_eq!(super::il_abi_version(), interlock_engine::ABI_VERSION);
    }

    #[test]
    #[allow(clippy::indexing_slicing)] // to fail as code of ours would
    fn a_panic_is_null_and_says_nothing_of_a_value() {
        let none: Vec<u8> = std::hint::black_box(Vec::new());
        assert!(super::told(|| Ok(none[0])).is_null());
        // SAFETY: the text lives until the next failed call of this thread.
        let said = unsafe { CStr::from_ptr(super::il_last_error()) };
        assert_eq!(said.to_bytes(), super::FAILED.as_bytes());
    }

    #[test]
    fn what_cannot_be_read_is_null_and_says_why() {
        // SAFETY: null, or bytes of this test with their length; each plan and decision is freed once.
        unsafe {
            assert!(super::il_plan_new(ptr::null(), 5).is_null());
            assert!(super::il_plan_new(b"{}".as_ptr(), 2).is_null());
            let said = CStr::from_ptr(super::il_last_error()).to_string_lossy();
            assert!(said.starts_with("is no plan"));
            let plan = super::il_plan_new(PLAN.as_ptr(), PLAN.len());
            assert!(!plan.is_null() && super::il_last_error().is_null());
            assert!(super::il_evaluate(plan, b"[]".as_ptr(), 2).is_null());
            assert_eq!(super::il_decision_verdict(ptr::null()), 1);
            let event = br#"{"action": "x", "args": {}}"#;
            let decision = super::il_evaluate(plan, event.as_ptr(), event.len());
            assert_eq!(super::il_decision_verdict(decision), 0);
            super::il_decision_free(decision);
            super::il_plan_free(plan);
        }
    }
}
