//! What the compiler says to code that uses the library.
//!
//! It is called directly, on the library that this test was built with: building it again for each kind of test takes
//! minutes.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The library as it was built last, beside this test.
fn library() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let libraries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("liblonghaul-") && name.ends_with(".rlib")
    });
    libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the library is beside its tests")
}

/// What the compiler says to this function; nothing when it compiles.
pub(crate) fn errors(function: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("case.rs");
    let text = format!(
        "use longhaul::{{durable::*, memory::*, operate::*, store::*, workspace::*, *}};
         {function}
         fn main() {{}}"
    );
    std::fs::write(&source, text).unwrap();
    let library = library();
    let output = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "--color", "never"])
        .args(["--cap-lints", "allow", "-o"])
        .arg(folder.path().join("case.rmeta"))
        .arg("--extern")
        .arg(format!("longhaul={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap_or(Path::new(".")).display()))
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() || said.is_empty(), "{said}");
    said
}
