//! What a path says of a file: whether it is worth remembering, and whether its content may be looked at. Pure.
//!
//! Invariant: what could hold a secret is [`PathClass::Secret`], whatever else its name looks like; a wrong "secret" costs
//! a summary, a wrong "source" could cost a key.

use serde::{Deserialize, Serialize};

use crate::{MemoryError, item::field, item::words};
use std::{fmt, str::FromStr};

words! {
    /// What sort of file a path names.
    PathClass, "path class" {
        /// May hold keys, passwords, certificates: only its name is kept, never what is in it.
        Secret = "secret",
        /// Decides how things run: settings, manifests, pipelines.
        Configuration = "configuration",
        /// Programs.
        Source = "source",
        /// Texts for people.
        Document = "document",
        /// Data, pictures, whatever else a person may have put there.
        Other = "other",
        /// Made by a program from other files.
        BuildOutput = "build_output",
        /// Can be made again at any time.
        Cache = "cache",
        /// Made to be thrown away.
        Temporary = "temporary",
    }
}

impl PathClass {
    /// 0 to 1: how much an act on such a file matters by itself.
    #[must_use]
    pub fn importance(self) -> f32 {
        match self {
            Self::Configuration => 0.7,
            Self::Source | Self::Document => 0.6,
            Self::Secret => 0.5,
            Self::Other => 0.45,
            Self::BuildOutput => 0.15,
            Self::Cache | Self::Temporary => 0.1,
        }
    }

    /// The most it can come to, however often and by whomever it is changed.
    #[must_use]
    pub fn importance_max(self) -> f32 {
        match self {
            Self::Cache | Self::Temporary => 0.2,
            Self::BuildOutput => 0.3,
            Self::Secret | Self::Configuration | Self::Source | Self::Document | Self::Other => 1.0,
        }
    }

    /// Whether what is in the file may go into memory.
    #[must_use]
    pub fn may_show_content(self) -> bool {
        matches!(self, Self::Configuration | Self::Source | Self::Document | Self::Other)
    }
}

/// Folders whose content can be made again.
const CACHE_DIRS: &[&str] = &[
    ".cache",
    "cache",
    "caches",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".gradle",
    ".npm",
    ".yarn",
    ".parcel-cache",
    ".turbo",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".nox",
    "node_modules",
    "bower_components",
    ".venv",
    "venv",
    ".git",
    ".hg",
    ".svn",
    ".idea",
    "deriveddata",
    ".eggs",
    ".ipynb_checkpoints",
];
/// Folders that programs write into.
const BUILD_DIRS: &[&str] = &[
    "target",
    "build",
    "dist",
    "out",
    "bin",
    "obj",
    "coverage",
    "htmlcov",
    "cmake-build-debug",
    "_build",
    ".output",
    "debug",
    "release",
];
const TEMPORARY_DIRS: &[&str] = &["tmp", "temp", ".tmp", ".temp", "var/folders"];
const TEMPORARY_ENDS: &[&str] = &[
    ".tmp",
    ".temp",
    ".swp",
    ".swo",
    ".swx",
    ".bak",
    ".orig",
    ".rej",
    ".part",
    ".partial",
    ".crdownload",
    ".download",
    "~",
    ".lck",
    ".pid",
    ".log.tmp",
    ".retry",
];
const BUILD_ENDS: &[&str] = &[
    ".o",
    ".obj",
    ".a",
    ".so",
    ".dylib",
    ".dll",
    ".exe",
    ".class",
    ".pyc",
    ".pyo",
    ".rlib",
    ".rmeta",
    ".d",
    ".map",
    ".min.js",
    ".min.css",
    ".tsbuildinfo",
    ".whl",
    ".jar",
    ".war",
    ".gcda",
    ".gcno",
    ".wasm",
];
const SOURCE_ENDS: &[&str] = &[
    ".rs", ".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".java", ".kt", ".kts", ".scala", ".c", ".h",
    ".cc", ".cpp", ".cxx", ".hpp", ".cs", ".rb", ".php", ".swift", ".m", ".mm", ".lua", ".pl", ".r", ".jl", ".hs",
    ".ml", ".ex", ".exs", ".erl", ".clj", ".dart", ".zig", ".nim", ".sh", ".bash", ".zsh", ".fish", ".ps1", ".sql",
    ".html", ".htm", ".css", ".scss", ".sass", ".less", ".vue", ".svelte", ".proto", ".graphql", ".ipynb", ".asm",
    ".s", ".vim", ".el",
];
const DOCUMENT_ENDS: &[&str] = &[
    ".md",
    ".markdown",
    ".rst",
    ".adoc",
    ".txt",
    ".tex",
    ".pdf",
    ".doc",
    ".docx",
    ".odt",
    ".rtf",
    ".ppt",
    ".pptx",
    ".xls",
    ".xlsx",
    ".org",
];
const CONFIGURATION_ENDS: &[&str] = &[
    ".toml",
    ".yaml",
    ".yml",
    ".json",
    ".json5",
    ".jsonc",
    ".ini",
    ".cfg",
    ".conf",
    ".config",
    ".properties",
    ".xml",
    ".plist",
    ".tf",
    ".tfvars",
    ".hcl",
    ".nix",
    ".gradle",
    ".cmake",
    ".mk",
    ".lock",
    ".service",
    ".editorconfig",
    ".gitignore",
    ".gitattributes",
    ".dockerignore",
    ".eslintrc",
    ".prettierrc",
    ".babelrc",
    ".env.example",
    ".env.sample",
    ".env.template",
];
const CONFIGURATION_NAMES: &[&str] = &[
    "makefile",
    "dockerfile",
    "containerfile",
    "jenkinsfile",
    "vagrantfile",
    "procfile",
    "gemfile",
    "rakefile",
    "pipfile",
    "justfile",
    "cmakelists.txt",
    "requirements.txt",
    "constraints.txt",
    "go.mod",
    "go.sum",
    "codeowners",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".gitconfig",
    ".vimrc",
    ".tmux.conf",
    "crontab",
    "hosts",
];
/// Whole names of files that hold secrets.
const SECRET_NAMES: &[&str] = &[
    ".env",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    ".dockercfg",
    ".git-credentials",
    "kubeconfig",
    "shadow",
    "gshadow",
    "master.key",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "authorized_keys",
    "keystore",
    "credentials",
    "cookies.txt",
    "cookies.sqlite",
    "login data",
    "wallet.dat",
    "terraform.tfstate",
];
const SECRET_ENDS: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".asc",
    ".gpg",
    ".pgp",
    ".ppk",
    ".ovpn",
    ".keychain",
    ".keytab",
    ".crt.key",
    ".tfstate",
    ".agekey",
    ".secret",
    ".secrets",
    ".token",
    ".rdp",
];
const SECRET_DIRS: &[&str] =
    &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", "secrets", ".secrets", "private_keys", ".password-store"];
/// Parts of a name that say what is in it.
const SECRET_WORDS: &[&str] = &[
    "secret",
    "credential",
    "password",
    "passwd",
    "passphrase",
    "private_key",
    "private-key",
    "privatekey",
    "apikey",
    "api_key",
    "api-key",
    "access_token",
    "access-token",
    "auth_token",
    "service_account",
    "service-account",
    "client_secret",
];

/// The class of a path, from its name alone.
#[must_use]
pub fn classify(path: &str) -> PathClass {
    let path = path.replace('\\', "/").to_lowercase();
    let path = path.trim_end_matches('/');
    let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
    let dirs: Vec<&str> = dirs.split('/').filter(|dir| !dir.is_empty() && *dir != ".").collect();
    if is_secret(&dirs, name) {
        return PathClass::Secret;
    }
    if is_temporary(path, &dirs, name) {
        return PathClass::Temporary;
    }
    if dirs.iter().any(|dir| CACHE_DIRS.contains(dir)) {
        return PathClass::Cache;
    }
    if dirs.iter().any(|dir| BUILD_DIRS.contains(dir)) && !ends(name, SOURCE_ENDS) || ends(name, BUILD_ENDS) {
        return PathClass::BuildOutput;
    }
    // What a generator writes below a folder for output is output, whatever it is written in.
    if dirs
        .iter()
        .any(|dir| matches!(*dir, "target" | "dist" | "_build" | "cmake-build-debug" | "coverage" | ".output"))
    {
        return PathClass::BuildOutput;
    }
    if CONFIGURATION_NAMES.contains(&name) || ends(name, CONFIGURATION_ENDS) || dirs.contains(&".github") {
        return PathClass::Configuration;
    }
    if ends(name, SOURCE_ENDS) {
        return PathClass::Source;
    }
    if ends(name, DOCUMENT_ENDS) || matches!(name, "readme" | "license" | "changelog" | "notice" | "authors") {
        return PathClass::Document;
    }
    PathClass::Other
}

fn is_secret(dirs: &[&str], name: &str) -> bool {
    let sample = [".example", ".sample", ".template", ".dist"].iter().any(|end| name.ends_with(end));
    if name.starts_with(".env") && !sample {
        return true;
    }
    if SECRET_NAMES.contains(&name) || ends(name, SECRET_ENDS) || dirs.iter().any(|dir| SECRET_DIRS.contains(dir)) {
        return true;
    }
    // A program about passwords is no password.
    !ends(name, SOURCE_ENDS)
        && !ends(name, &[".md", ".rst"])
        && !sample
        && SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn is_temporary(path: &str, dirs: &[&str], name: &str) -> bool {
    let named = ends(name, TEMPORARY_ENDS)
        || name.starts_with("~$")
        || name.starts_with(".#")
        || name.starts_with("tmp.")
        || name.starts_with(".tmp")
        || (name.starts_with('#') && name.ends_with('#'))
        || name.contains(".tmp.")
        || matches!(name, ".ds_store" | "thumbs.db" | "desktop.ini");
    named || dirs.iter().any(|dir| TEMPORARY_DIRS.contains(dir)) || path.contains("/var/folders/")
}

fn ends(name: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| name.ends_with(end) && name.len() >= end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_it_is() {
        let cases: &[(PathClass, &[&str])] = &[
            (
                PathClass::Secret,
                &[
                    ".env",
                    "app/.env.production",
                    "/home/u/.ssh/config",
                    "server.PEM",
                    "deploy/client_secret_1.json",
                    "db-password.txt",
                    "C:\\Users\\me\\.aws\\credentials",
                    "terraform.tfstate",
                    "id_rsa",
                    "build/.env",
                ],
            ),
            (
                PathClass::Configuration,
                &[
                    "Cargo.toml",
                    "package.json",
                    ".github/workflows/ci.yml",
                    ".env.example",
                    "Dockerfile",
                    "infra/main.tf",
                    "requirements.txt",
                    "settings.ini",
                    "Makefile",
                ],
            ),
            (
                PathClass::Source,
                &["src/main.rs", "app/views/index.HTML", "password_reset.py", "bin/run.sh", "lib/secrets.rs"],
            ),
            (PathClass::Document, &["README.md", "docs/plan.pdf", "notes.txt", "LICENSE", "docs/passwords.md"]),
            (PathClass::Other, &["photo.jpg", "data/measured.csv", "x"]),
            (
                PathClass::BuildOutput,
                &["target/debug/app", "dist/bundle.js", "main.o", "a/build/report.txt", "app.min.js"],
            ),
            (PathClass::Cache, &["node_modules/left-pad/index.js", "x/__pycache__/a.py", ".cache/x", ".git/index"]),
            (
                PathClass::Temporary,
                &["/tmp/x.rs", "a.rs.swp", "report.docx~", "~$report.docx", "out.tmp.1234", ".DS_Store", ".#main.c"],
            ),
        ];
        for (class, paths) in cases {
            for path in *paths {
                assert_eq!(classify(path), *class, "{path}");
            }
        }
    }

    #[test]
    fn a_configuration_matters_more_than_a_cache_whatever_happens_to_it() {
        assert!(PathClass::Configuration.importance() > PathClass::Cache.importance_max());
        assert!(PathClass::ALL.iter().all(|class| class.importance() <= class.importance_max()));
    }
}
