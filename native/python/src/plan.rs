//! `Plan`: the rules of a policy that run natively, asked from Python.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use interlock_engine::caught::{caught, FAILED};
use interlock_engine::context::Context;
use interlock_engine::edits::Edit;
use interlock_engine::evaluate::{Decision, Opinion, Saying};
use interlock_engine::json::links_of;
use interlock_engine::matching::Unjudged;
use interlock_engine::plan as engine;
use interlock_engine::value::{Event, Origin, Phase, Value};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use crate::heap::give_back;
use crate::read::{edited, Reader};

const ALONE: usize = 1 << 14; // bytes of text from which on other threads may run meanwhile
const LONG: usize = 4; // portions of a plan from which on a thread of its own compiles it
const STACK: usize = 8 << 20; // bytes, as Python's own threads have
const MANY: usize = 1_000; // rules from which on what they leave behind is returned to the system at once

pyo3::create_exception!(
    interlock_native,
    Panicked,
    pyo3::exceptions::PyException,
    "The native engine failed; whoever asked it refuses the action."
);

pyo3::create_exception!(
    interlock_native,
    BadPlan,
    pyo3::exceptions::PyException,
    "A plan that the native engine refuses; its argument is a list of (position, one line)."
);

/// The rules of a policy that run natively; immutable, and safe to share between threads.
#[pyclass(frozen, module = "interlock_native")]
pub struct Plan {
    compiled: engine::Plan,
    decisions: Vec<Py<PyAny>>,
    frozen: [Py<PyType>; 3],
}

#[pymethods]
impl Plan {
    /// `json` is the plan, in portions: one long piece would hold up other threads where it is made. `decisions` has a
    /// Decision for each of its rules (None where it depends on the event); then come the read-only subclasses of dict
    /// and list, and the one for a result that was no mapping; a class below that holds one that is no copy.
    /// Raises: `BadPlan`, Panicked.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // a list of Python's is read into one of our own
    fn new(
        py: Python<'_>,
        json: Vec<PyBackedBytes>,
        decisions: Vec<Py<PyAny>>,
        map: Py<PyType>,
        list: Py<PyType>,
        wrapped: Py<PyType>,
    ) -> PyResult<Self> {
        let compiled = guarded(|| py.detach(|| compile(&json)))?;
        let compiled = compiled.map_err(|bad| {
            let rows: Vec<_> = bad.into_iter().map(|bad| (bad.at, bad.what)).collect();
            BadPlan::new_err((rows,))
        })?;
        if compiled.rules.len() != decisions.len() {
            return Err(PyValueError::new_err("a decision, or None, for each rule"));
        }
        Ok(Self {
            compiled,
            decisions,
            frozen: [map, list, wrapped],
        })
    }

    /// What the rules at the positions from `lo` up to `hi` say of an event: None where none says anything, else a
    /// list of (position, Decision) or of (position, (verdict, reason, policy id, attribution, changes)).
    /// `NotImplemented` where the event holds what the native engine cannot judge, or so much text that other threads
    /// may run meanwhile, in containers that they changed or of which something is said: whoever asked asks again of a
    /// copy. A tuple of paths where
    /// rules have to know where they lead: whoever asked asks again, with `links` from each of them to its place.
    /// Raises: Panicked.
    #[pyo3(signature = (lo, hi, stop, action, args, result, principal, cwd, origins, server_pin, links, /))]
    #[allow(clippy::too_many_arguments)] // the fields of an event, without an object for them on the hot path
    fn opinions<'py>(
        &self,
        py: Python<'py>,
        lo: usize,
        hi: usize,
        stop: bool,
        action: &Bound<'py, PyAny>,
        args: &Bound<'py, PyAny>,
        result: bool,
        principal: &Bound<'py, PyAny>,
        cwd: &Bound<'py, PyAny>,
        origins: &Bound<'py, PyAny>,
        server_pin: &Bound<'py, PyAny>,
        links: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = Asked {
            py,
            range: (lo, hi),
            stop,
            action,
            args,
            result,
            principal,
            cwd,
            origins,
            server_pin,
            links,
        };
        guarded(|| self.answer(&asked))?
    }
}

impl Drop for Plan {
    /// Thousands of rules take a while to free: other threads run meanwhile.
    fn drop(&mut self) {
        let compiled = std::mem::take(&mut self.compiled);
        Python::try_attach(|py| py.detach(|| freed(compiled)));
    }
}

type Compiled = Result<engine::Plan, Vec<engine::BadPlan>>;

/// Compile a plan; a long one in a thread of its own. The heap leaves it to the thread that asked for memory to take
/// what others freed of it: a thread that installs a policy and then asks it would pay for that in one of its calls.
fn compile(portions: &[PyBackedBytes]) -> Compiled {
    if portions.len() < LONG {
        return compiled(portions);
    }
    thread::scope(|scope| {
        let spawned = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, || compiled(portions));
        spawned.map_or_else(
            |_| compiled(portions), // no thread is to be had
            |spawned| spawned.join().unwrap_or_else(|panic| resume_unwind(panic)),
        )
    })
}

fn compiled(portions: &[PyBackedBytes]) -> Compiled {
    let mut json = Vec::with_capacity(portions.iter().map(|portion| portion.len()).sum());
    for portion in portions {
        json.extend_from_slice(portion);
    }
    let compiled = engine::Plan::new(&json);
    drop(json);
    if matches!(&compiled, Ok(plan) if plan.rules.len() >= MANY) {
        give_back();
    }
    compiled
}

fn freed(compiled: engine::Plan) {
    let many = compiled.rules.len() >= MANY;
    drop(compiled);
    if many {
        give_back();
    }
}

/// One question: rules, and the fields of an event.
struct Asked<'o, 'py> {
    py: Python<'py>,
    range: (usize, usize),
    stop: bool,
    action: &'o Bound<'py, PyAny>,
    args: &'o Bound<'py, PyAny>,
    result: bool,
    principal: &'o Bound<'py, PyAny>,
    cwd: &'o Bound<'py, PyAny>,
    origins: &'o Bound<'py, PyAny>,
    server_pin: &'o Bound<'py, PyAny>,
    links: &'o Bound<'py, PyAny>,
}

impl Plan {
    fn answer<'py>(&self, asked: &Asked<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let (py, args, result) = (asked.py, asked.args, asked.result);
        let mut reader = Reader::new(py, &self.frozen);
        let [_, _, kind] = &self.frozen;
        let own = args.get_type();
        let is_copy = own.is(kind.bind(py));
        let as_given = result && !is_copy && own.is_subclass(kind.bind(py))?;
        let wrapped = result && (as_given || is_copy);
        let unable = || Ok(py.NotImplemented().into_bound(py));
        let dict = if as_given {
            args.cast().ok()
        } else {
            reader.exact::<PyDict>(args)
        };
        let Some(dict) = dict else {
            return unable();
        };
        reader.loose &= result; // the arguments of a call are the door's own dict
        if reader.map(dict, 0).is_none() {
            return unable();
        }
        let facts = (read_origins(asked.origins), read_links(asked.links));
        let (Ok(origins), Ok(links)) = facts else {
            return unable(); // what they hold is no text
        };
        let texts = (
            text(asked.action),
            text(asked.principal),
            text(asked.cwd),
            text(asked.server_pin),
            reader.value(),
        );
        let (Ok(Some(action)), Ok(principal), Ok(cwd), Ok(pin), Some(values)) = texts else {
            return unable();
        };
        let event = Event {
            action: Cow::Borrowed(action),
            args: values,
            phase: if result { Phase::Result } else { Phase::Call },
            principal: principal.map(Cow::Borrowed),
            cwd: cwd.map(Cow::Borrowed),
            origins: origins.iter().map(origin).collect(),
            server_pin: pin.map(Cow::Borrowed),
            links: links_of(&links),
        };
        let (range, stop) = (asked.range, asked.stop);
        let ask = || {
            let context = Context::new(&event, wrapped);
            let said = self.compiled.opinions(&context, range, stop);
            said.map_err(|why| match why {
                Unjudged::Leads => context.leading(),
                _ => Vec::new(),
            })
        };
        let alone = reader.size >= ALONE;
        let said = if alone { py.detach(ask) } else { ask() };
        // another thread may have changed what is handed on, and not what was judged
        if alone
            && reader.loose
            && (!matches!(&said, Ok(said) if said.is_empty()) || !self.still(&reader, dict))
        {
            return unable();
        }
        let said = match said {
            Ok(said) => said,
            Err(leading) if leading.is_empty() => return unable(),
            Err(leading) => return Ok(PyTuple::new(py, leading)?.into_any()),
        };
        if said.is_empty() {
            return Ok(py.None().into_bound(py));
        }
        let whole = match &event.args {
            Value::Map(_) if wrapped => dict.get_item(intern!(py, "result"))?,
            _ => None,
        };
        let told = said
            .into_iter()
            .map(|opinion| self.told(opinion, dict, whole.as_ref(), result));
        Ok(PyList::new(py, told.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }

    /// Whether a dict still holds what was read of it.
    fn still<'py>(&self, read: &Reader<'_, 'py>, dict: &Bound<'py, PyDict>) -> bool {
        let mut again = Reader::new(dict.py(), &self.frozen);
        again.map(dict, 0).is_some() && again.is_same(read)
    }

    fn told<'py>(
        &self,
        opinion: Opinion,
        args: &Bound<'py, PyDict>,
        whole: Option<&Bound<'py, PyAny>>,
        result: bool,
    ) -> PyResult<(usize, Bound<'py, PyAny>)> {
        let py = args.py();
        let at = self
            .compiled
            .rules
            .get(opinion.place)
            .map_or(usize::MAX, |rule| rule.at);
        let decision = match opinion.said {
            Saying::Fixed => {
                let kept = self.decisions.get(opinion.place);
                return Ok((
                    at,
                    kept.map_or_else(|| py.None(), |d| d.clone_ref(py))
                        .into_bound(py),
                ));
            }
            Saying::This(decision) => decision,
        };
        let changes = match &decision.edit {
            None => py.None().into_bound(py),
            Some(edit) if result => edited(whole.unwrap_or(args.as_any()), edit)?,
            Some(edit) => changed(args, edit)?.into_any(),
        };
        Ok((at, told_decision(py, &decision, changes)?.into_any()))
    }
}

fn told_decision<'py>(
    py: Python<'py>,
    decision: &Decision,
    changes: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    (
        decision.verdict as u8,
        decision.reason.as_str(),
        decision.policy_id.as_deref(),
        decision.attributed_to.as_deref(),
        changes,
    )
        .into_pyobject(py)
}

/// The arguments of a call that an edit changes, by name.
fn changed<'py>(args: &Bound<'py, PyDict>, edit: &Edit) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(args.py());
    if let Edit::Within(edits) = edit {
        for (at, (key, value)) in args.iter().enumerate() {
            if let Some((_, edit)) = edits.iter().find(|(place, _)| *place == at) {
                out.set_item(key, edited(&value, edit)?)?;
            }
        }
    }
    Ok(out)
}

/// What is neither None nor a text that can be read.
struct NoText;

/// A text, or nothing for None.
fn text<'o>(object: &'o Bound<'_, PyAny>) -> Result<Option<&'o str>, NoText> {
    if object.is_none() {
        return Ok(None);
    }
    let text = object.cast_exact::<PyString>().map_err(|_| NoText)?;
    text.to_str().map(Some).map_err(|_| NoText)
}

fn read_origins(origins: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let py = origins.py();
    let mut read = Vec::new();
    for origin in origins.cast::<PyTuple>()?.iter() {
        read.push((
            origin.getattr(intern!(py, "source"))?.extract()?,
            origin.getattr(intern!(py, "path"))?.extract()?,
        ));
    }
    Ok(read)
}

/// Where paths lead: nothing of None, else of a dict.
fn read_links(links: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, String>> {
    if links.is_none() {
        return Ok(BTreeMap::new());
    }
    links.extract()
}

fn origin((source, path): &(String, String)) -> Origin<'_> {
    Origin {
        source: Cow::Borrowed(source),
        path: Cow::Borrowed(path),
    }
}

/// Run native code; a panic becomes an exception that an `except Exception` sees.
pub fn guarded<T>(run: impl FnOnce() -> T) -> PyResult<T> {
    caught(run).map_err(|_| Panicked::new_err(FAILED))
}
