//! Reads events as JSON lines from standard input and writes the intents of each as one line of JSON.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use interlock_engine::analysis::intents::intents;
use interlock_engine::value::{Event, Phase, Value};

fn main() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let document: serde_json::Value = serde_json::from_str(&line?)?;
        let found = event(&document)
            .map(|event| intents(&event))
            .unwrap_or_default();
        let rows: Vec<_> = found
            .iter()
            .map(|i| {
                (
                    i.name,
                    i.effect,
                    &i.target,
                    i.scope,
                    &i.program,
                    &i.attributed_to,
                    i.reversible,
                )
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string(&rows)?)?;
        out.flush()?;
    }
    Ok(())
}

fn event(document: &serde_json::Value) -> Option<Event<'_>> {
    Some(Event {
        action: document.get("action")?.as_str()?.into(),
        args: value(document.get("args")?),
        phase: Phase::Call,
        principal: None,
        server_pin: None,
        links: BTreeMap::new(),
        cwd: document
            .get("cwd")
            .and_then(|cwd| cwd.as_str())
            .map(Into::into),
        origins: Vec::new(),
    })
}

fn value(json: &serde_json::Value) -> Value<'_> {
    match json {
        serde_json::Value::String(text) => Value::Str(text.as_str().into()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(value).collect()),
        serde_json::Value::Object(pairs) => Value::Map(
            pairs
                .iter()
                .map(|(name, item)| (name.as_str().into(), value(item)))
                .collect(),
        ),
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        _ => Value::Null,
    }
}
