//! `intents`: what a call would do, for whoever compares the two engines' analysis.

use std::borrow::Cow;
use std::collections::BTreeMap;

use interlock_engine::analysis::intents as analysis;
use interlock_engine::value::{Event, Phase};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::plan::guarded;
use crate::read::Reader;

/// Name, effect, target, scope, program, attribution, and whether it can be undone.
type Row = (String, String, String, String, String, String, bool);

/// The intents of a call, in the order in which it would carry them out, as tuples of the fields of
/// `interlock.engine.analysis.effects.Intent`. Raises: `TypeError`, for arguments that this engine cannot represent;
/// Panicked.
#[pyfunction]
#[pyo3(signature = (action, args, cwd=None))]
pub fn intents(action: &str, args: &Bound<'_, PyDict>, cwd: Option<&str>) -> PyResult<Vec<Row>> {
    let mut reader = Reader::new(args.py(), &[]);
    let read = reader.map(args, 0);
    let values = read.and_then(|()| reader.value()).ok_or_else(|| {
        PyTypeError::new_err("the native engine cannot represent these arguments")
    })?;
    let event = Event {
        action: Cow::Borrowed(action),
        args: values,
        phase: Phase::Call,
        principal: None,
        server_pin: None,
        links: BTreeMap::new(),
        cwd: cwd.map(Cow::Borrowed),
        origins: Vec::new(),
    };
    let found = guarded(|| analysis::intents(&event))?;
    Ok(found
        .into_iter()
        .map(|i| {
            let (name, effect) = (i.name.to_owned(), i.effect.to_owned());
            (
                name,
                effect,
                i.target,
                i.scope.to_owned(),
                i.program,
                i.attributed_to,
                i.reversible,
            )
        })
        .collect())
}
