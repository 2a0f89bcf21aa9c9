//! Reads Python values in place: containers are walked, texts are borrowed, nothing is written out as JSON.

use std::borrow::Cow;
use std::slice::Iter;

use interlock_engine::edits::Edit;
use interlock_engine::value::Value;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyDictMethods, PyFloat, PyInt, PyList, PyListMethods, PyString,
    PyStringMethods, PyTuple, PyTupleMethods, PyType,
};

const MAX_DEPTH: usize = 200; // containers within each other, as `interlock.base.canonical.MAX_DEPTH`
const FEW: usize = 16; // values, for which there is room from the start

/// A value, step by step: what a container holds stands behind it.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// None
    Null,
    /// True and False
    Bool(bool),
    /// An int of 64 bits.
    Int(i64),
    /// The bits of a finite float.
    Float(u64),
    /// The next of the texts.
    Text,
    /// A list or a tuple of so many items.
    List(usize),
    /// A dict of so many pairs, a text and a value each.
    Map(usize),
}

/// What is read: its texts are held, so that they can be borrowed, and how many bytes they are.
pub struct Reader<'r, 'py> {
    py: Python<'py>,
    frozen: &'r [Py<PyType>],
    steps: Vec<Step>,
    texts: Vec<Bound<'py, PyString>>,
    /// Bytes of text read so far.
    pub size: usize,
    /// Whether a dict or a list was among it that another thread may change.
    pub loose: bool,
}

impl<'r, 'py> Reader<'r, 'py> {
    /// A reader that takes subclasses of dict and list for these types only.
    pub fn new(py: Python<'py>, frozen: &'r [Py<PyType>]) -> Self {
        Self {
            py,
            frozen,
            steps: Vec::with_capacity(FEW),
            texts: Vec::with_capacity(FEW),
            size: 0,
            loose: false,
        }
    }

    /// Read a value; `None` where the native engine cannot represent it.
    pub fn read(&mut self, object: &Bound<'py, PyAny>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None; // a text too, as there
        }
        if let Ok(text) = object.cast_exact::<PyString>() {
            self.steps.push(Step::Text);
            return self.text(text.clone());
        }
        if let Some(dict) = self.exact::<PyDict>(object) {
            return self.map(dict, depth);
        }
        if let Some(list) = self.exact::<PyList>(object) {
            self.steps.push(Step::List(list.len()));
            return list.iter().try_for_each(|item| self.read(&item, depth + 1));
        }
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            self.steps.push(Step::List(tuple.len()));
            return tuple
                .iter()
                .try_for_each(|item| self.read(&item, depth + 1));
        }
        self.steps.push(plain(object)?);
        Some(())
    }

    /// Read the pairs of a dict.
    pub fn map(&mut self, dict: &Bound<'py, PyDict>, depth: usize) -> Option<()> {
        self.steps.push(Step::Map(dict.len()));
        for (key, value) in dict.iter() {
            self.text(key.cast_into_exact::<PyString>().ok()?)?;
            self.read(&value, depth + 1)?;
        }
        Some(())
    }

    /// A dict or a list, of its very type or of one of the read-only ones.
    pub fn exact<'o, T: pyo3::PyTypeCheck + pyo3::PyTypeInfo>(
        &mut self,
        object: &'o Bound<'py, PyAny>,
    ) -> Option<&'o Bound<'py, T>> {
        if let Ok(exact) = object.cast_exact::<T>() {
            self.loose = true;
            return Some(exact);
        }
        let own = object.get_type();
        let known = self.frozen.iter().any(|kind| kind.bind(self.py).is(&own));
        known.then(|| object.cast::<T>().ok())?
    }

    /// Whether what another reader read are the same values, and the very same texts.
    pub fn is_same(&self, other: &Self) -> bool {
        let texts = self.texts.iter().zip(&other.texts);
        self.steps == other.steps
            && self.texts.len() == other.texts.len()
            && texts.into_iter().all(|(one, other)| one.is(other))
    }

    /// The value that was read, with its texts borrowed; `None` is never seen, for the reader has seen every text.
    pub fn value(&self) -> Option<Value<'_>> {
        let (steps, texts) = (&mut self.steps.iter(), &mut self.texts.iter());
        value(steps, texts)
    }

    fn text(&mut self, text: Bound<'py, PyString>) -> Option<()> {
        self.size += text.to_str().ok()?.len();
        self.texts.push(text);
        Some(())
    }
}

/// What is neither a text nor a container.
fn plain(object: &Bound<'_, PyAny>) -> Option<Step> {
    if object.is_none() {
        return Some(Step::Null);
    }
    if let Ok(whole) = object.cast_exact::<PyInt>() {
        return whole.extract().ok().map(Step::Int);
    }
    if let Ok(truth) = object.cast_exact::<PyBool>() {
        return Some(Step::Bool(truth.is_true()));
    }
    let number = object.cast_exact::<PyFloat>().ok()?.value();
    number.is_finite().then(|| Step::Float(number.to_bits()))
}

fn value<'t>(
    steps: &mut Iter<'t, Step>,
    texts: &mut Iter<'t, Bound<'_, PyString>>,
) -> Option<Value<'t>> {
    Some(match steps.next()? {
        Step::Null => Value::Null,
        Step::Bool(truth) => Value::Bool(*truth),
        Step::Int(whole) => Value::Int(*whole),
        Step::Float(bits) => Value::Float(f64::from_bits(*bits)),
        Step::Text => Value::Str(Cow::Borrowed(texts.next()?.to_str().ok()?)),
        Step::List(count) => {
            let mut items = Vec::with_capacity(*count);
            for _ in 0..*count {
                items.push(value(steps, texts)?);
            }
            Value::List(items)
        }
        Step::Map(count) => {
            let mut pairs = Vec::with_capacity(*count);
            for _ in 0..*count {
                let key = texts.next()?.to_str().ok()?;
                pairs.push((Cow::Borrowed(key), value(steps, texts)?));
            }
            Value::Map(pairs)
        }
    })
}

/// The changed copy of a Python value; what the edit does not name are the value's own objects.
pub fn edited<'py>(object: &Bound<'py, PyAny>, edit: &Edit) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let edits = match edit {
        Edit::Text(text) => return Ok(PyString::new(py, text).into_any()),
        Edit::Within(edits) => edits,
    };
    let of = |at: usize| {
        let found = edits.binary_search_by_key(&at, |(place, _)| *place);
        found.ok().and_then(|found| edits.get(found))
    };
    if let Ok(dict) = object.cast::<PyDict>() {
        let out = PyDict::new(py);
        for (at, (key, value)) in dict.iter().enumerate() {
            match of(at) {
                Some((_, edit)) => out.set_item(key, edited(&value, edit)?)?,
                None => out.set_item(key, value)?,
            }
        }
        return Ok(out.into_any());
    }
    let is_tuple = object.is_exact_instance_of::<PyTuple>();
    let mut items = Vec::new();
    for (at, item) in object.try_iter()?.enumerate() {
        let item = item?;
        items.push(match of(at) {
            Some((_, edit)) => edited(&item, edit)?,
            None => item,
        });
    }
    if is_tuple {
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    Ok(PyList::new(py, items)?.into_any())
}
