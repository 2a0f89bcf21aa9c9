//! Lists the grammars of programs, which both engines read, so that they are part of the library.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const FOLDER: &str = "../../interlock/engine/analysis/grammars";

fn main() -> io::Result<()> {
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join(FOLDER);
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?
        .collect::<io::Result<Vec<_>>>()?
        .iter()
        .map(fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        let name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned());
        println!("cargo:rerun-if-changed={}", path.display());
        let path = path.to_string_lossy();
        let _ = writeln!(
            list,
            "    ({:?}, include_str!({path:?})),",
            name.unwrap_or_default()
        );
    }
    list.push_str("]\n");
    fs::write(Path::new(&variable("OUT_DIR")?).join("grammars.rs"), list)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}
