//! Reads Python values in place: containers are walked, texts are borrowed, nothing is written out as JSON.

use std::borrow::Cow;

use interlock_engine::edits::Edit;
use interlock_engine::value::Value;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyDictMethods, PyFloat, PyInt, PyList, PyListMethods, PyString,
    PyStringMethods, PyTuple, PyTupleMethods, PyType,
};

const MAX_DEPTH: usize = 200; // containers within each other, as `interlock.base.canonical.MAX_DEPTH`

/// A value while its texts are held, so that they can be borrowed.
pub enum Held<'py> {
    /// None
    Null,
    /// True and False
    Bool(bool),
    /// An int of 64 bits.
    Int(i64),
    /// A finite float.
    Float(f64),
    /// A str.
    Text(Bound<'py, PyString>),
    /// A list or a tuple.
    List(Vec<Held<'py>>),
    /// A dict.
    Map(Vec<(Bound<'py, PyString>, Held<'py>)>),
}

/// What is read, and how many bytes of text there are in it.
pub struct Reader<'r, 'py> {
    py: Python<'py>,
    frozen: &'r [Py<PyType>],
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
            size: 0,
            loose: false,
        }
    }

    /// The value; `None` where the native engine cannot represent it.
    pub fn read(&mut self, object: &Bound<'py, PyAny>, depth: usize) -> Option<Held<'py>> {
        if depth > MAX_DEPTH {
            return None; // a text too, as there
        }
        if let Ok(text) = object.cast_exact::<PyString>() {
            return self.text(text.clone()).map(Held::Text);
        }
        if object.is_none() {
            return Some(Held::Null);
        }
        if let Ok(truth) = object.cast_exact::<PyBool>() {
            return Some(Held::Bool(truth.is_true()));
        }
        if let Ok(whole) = object.cast_exact::<PyInt>() {
            return whole.extract().ok().map(Held::Int);
        }
        if let Ok(number) = object.cast_exact::<PyFloat>() {
            let number = number.value();
            return number.is_finite().then_some(Held::Float(number));
        }
        if let Some(dict) = self.exact::<PyDict>(object) {
            return self.map(dict, depth).map(Held::Map);
        }
        let items: Vec<Bound<'py, PyAny>> = if let Some(list) = self.exact::<PyList>(object) {
            list.iter().collect()
        } else {
            object.cast_exact::<PyTuple>().ok()?.iter().collect()
        };
        let read = items.iter().map(|item| self.read(item, depth + 1));
        read.collect::<Option<_>>().map(Held::List)
    }

    /// The pairs of a dict.
    pub fn map(
        &mut self,
        dict: &Bound<'py, PyDict>,
        depth: usize,
    ) -> Option<Vec<(Bound<'py, PyString>, Held<'py>)>> {
        let mut pairs = Vec::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            let key = key.cast_into_exact::<PyString>().ok()?;
            pairs.push((self.text(key)?, self.read(&value, depth + 1)?));
        }
        Some(pairs)
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

    fn text(&mut self, text: Bound<'py, PyString>) -> Option<Bound<'py, PyString>> {
        self.size += text.to_str().ok()?.len();
        Some(text)
    }
}

impl Held<'_> {
    /// The value, with its texts borrowed; `None` is never seen, for the reader has seen every text.
    pub fn value(&self) -> Option<Value<'_>> {
        Some(match self {
            Held::Null => Value::Null,
            Held::Bool(truth) => Value::Bool(*truth),
            Held::Int(whole) => Value::Int(*whole),
            Held::Float(number) => Value::Float(*number),
            Held::Text(text) => Value::Str(Cow::Borrowed(text.to_str().ok()?)),
            Held::List(items) => Value::List(items.iter().map(Held::value).collect::<Option<_>>()?),
            Held::Map(pairs) => borrowed(pairs)?,
        })
    }
}

/// A mapping, with its texts borrowed.
pub fn borrowed<'h>(pairs: &'h [(Bound<'_, PyString>, Held<'_>)]) -> Option<Value<'h>> {
    let mut out = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        out.push((Cow::Borrowed(key.to_str().ok()?), value.value()?));
    }
    Some(Value::Map(out))
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
