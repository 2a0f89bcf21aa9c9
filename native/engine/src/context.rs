//! One event while it is judged: what several rules ask is worked out once, and only where one asks.

use crate::value::Event;

/// An event, and what is known of it.
#[derive(Debug)]
pub struct Context<'e, 'a> {
    /// The event as it stands now.
    pub event: &'e Event<'a>,
    /// Whether a result that was no mapping stands under the key "result".
    pub wrapped: bool,
}

impl<'e, 'a> Context<'e, 'a> {
    /// The context of an event of which nothing is known yet.
    #[must_use]
    pub fn new(event: &'e Event<'a>, wrapped: bool) -> Self {
        Self { event, wrapped }
    }
}
