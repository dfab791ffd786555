//! The program as a person or a script meets it: text in, text and exit code out.

mod doctor;
mod manual;
mod program;
mod settings;
