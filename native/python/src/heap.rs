//! The wheel's own heap.

/// Half of what a long command costs is asking for memory and giving it back: this heap is quick at that.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

extern "C" {
    fn mi_collect(force: bool);
}

/// Return to the system what lies free, at once. Left to the heap, it is done a second later by whoever asks for memory
/// then: milliseconds, for a policy of thousands of rules, in the middle of somebody's call.
pub fn give_back() {
    // SAFETY: it takes no pointer, and any thread may call it at any time; the heap is linked in, as it is in use.
    unsafe { mi_collect(true) }
}
