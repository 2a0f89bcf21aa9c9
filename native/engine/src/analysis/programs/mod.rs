//! What programs do whose command lines are more than a grammar can say, by the kind of program.

pub mod archives;
pub mod cloud;
pub mod data;
pub mod files;
pub mod net;
mod sql;
pub mod system;
pub mod vcs;
