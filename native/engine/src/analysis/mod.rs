//! What a call would do, without doing it: the shell analysis, one semantics with `interlock/engine/analysis`.

pub mod effects;
