//! What a call would do, without doing it: the shell analysis, one semantics with `interlock/engine/analysis`.

mod braces;
mod change;
mod compound;
pub mod decode;
mod dollar;
pub mod effects;
pub mod environment;
mod execute;
mod expand;
pub mod findings;
pub mod fnmatch;
pub mod options;
pub mod ordinary;
pub mod outputs;
pub mod parser;
pub mod paths;
mod redirect;
pub mod scan;
pub mod tables;
pub mod tree;
pub mod values;
pub mod walk;
mod words;
