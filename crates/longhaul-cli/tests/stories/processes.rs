//! What /proc says of running processes. Processes come and go while it is read: what is gone has nothing to say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// The children of this process, their children, and so on.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: BTreeMap<u32, u32> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let current = found[next];
        found.extend(parents.iter().filter(|(_, parent)| **parent == current).map(|(id, _)| *id));
        next += 1;
    }
    found.split_off(1)
}

fn parent(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in brackets and may hold anything; state and parent follow it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Program and arguments, with blanks between.
pub(crate) fn command_line(id: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}

/// TCP ports on which this process itself listens.
pub(crate) fn listening_ports(id: u32) -> Vec<u16> {
    let Ok(open) = fs::read_dir(format!("/proc/{id}/fd")) else { return Vec::new() };
    let links = open.filter_map(Result::ok).filter_map(|file| fs::read_link(file.path()).ok());
    let sockets: BTreeSet<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{id}/net/{name}")).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    rows.filter_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let listens = fields.get(3) == Some(&"0A") && sockets.contains(*fields.get(9)?);
        let port = u16::from_str_radix(fields[1].rsplit_once(':')?.1, 16).ok()?;
        listens.then_some(port)
    })
    .collect()
}

#[test]
fn a_listening_port_is_seen() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(listening_ports(std::process::id()).contains(&port));
}
