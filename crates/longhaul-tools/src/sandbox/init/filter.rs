//! System calls that no command needs: those that open the kernel's larger surfaces, and, without namespaces, those by
//! which the other rules could be passed. A refused call fails; it does not kill.

use std::{collections::BTreeMap, env::consts::ARCH};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// `MSG_FASTOPEN`: connects without `connect`, and so past Landlock's rule for ports.
const MSG_FASTOPEN: u64 = 0x2000_0000;

/// What the filter has to make up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundary {
    /// Namespaces stand around the command.
    Namespaces,
    /// Landlock alone does; `open_network` if the settings ask for the host's network.
    Landlock { open_network: bool },
}

/// Puts the filter on the calling thread and what it will start.
pub(super) fn apply(boundary: Boundary) -> Result<(), String> {
    let mut refused = always()?;
    if let Boundary::Landlock { open_network } = boundary {
        refused.extend(without_namespaces()?);
        if !open_network {
            refused.extend(tcp_only()?);
        }
        // The C library then uses `clone`, whose flags can be looked at.
        install(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    }
    install(refused, libc::EPERM)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Kernel interfaces beyond what builds, servers and tools use. Keyrings are not part of any namespace.
fn always() -> Result<Rules, String> {
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_open_by_handle_at,
        libc::SYS_quotactl,
        libc::SYS_acct,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_reboot,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_setns,
        libc::SYS_unshare,
    ];
    Ok(calls.into_iter().map(|call| (call, Vec::new())).collect())
}

/// What namespaces would make harmless.
fn without_namespaces() -> Result<Rules, String> {
    let mut rules: Rules = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_chroot,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_mq_open,
        libc::SYS_sethostname,
    ]
    .into_iter()
    .map(|call| (call, Vec::new()))
    .collect();
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let has = |flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])
    };
    rules.insert(libc::SYS_clone, namespaces.into_iter().map(has).collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Landlock's rules for ports see TCP alone: no UDP, no raw sockets, no MPTCP, and no Unix sockets, whose files it lets
/// anybody connect to. Pairs of connected sockets are another system call and work.
fn tcp_only() -> Result<Rules, String> {
    let number = |value: i32| u64::from(value.unsigned_abs());
    let (v4, v6) = (number(libc::AF_INET), number(libc::AF_INET6));
    let mut socket = vec![
        rule(&[(0, SeccompCmpOp::Ne, v4), (0, SeccompCmpOp::Ne, v6)])?,
        rule(&[(2, SeccompCmpOp::Ne, 0), (2, SeccompCmpOp::Ne, number(libc::IPPROTO_TCP))])?,
    ];
    for kind in (0..16).filter(|kind| *kind != number(libc::SOCK_STREAM)) {
        socket.push(rule(&[(1, SeccompCmpOp::MaskedEq(0xf), kind)])?);
    }
    let fast = |argument| rule(&[(argument, SeccompCmpOp::MaskedEq(MSG_FASTOPEN), MSG_FASTOPEN)]);
    Ok(BTreeMap::from([
        (libc::SYS_socket, socket),
        (libc::SYS_sendto, vec![fast(3)?]),
        (libc::SYS_sendmsg, vec![fast(2)?]),
        (libc::SYS_sendmmsg, vec![fast(3)?]),
    ]))
}

/// All of these hold: argument, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let each = conditions
        .iter()
        .map(|(argument, op, value)| SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, op.clone(), *value));
    each.collect::<Result<Vec<_>, _>>().and_then(SeccompRule::new).map_err(failed)
}

fn install(rules: Rules, errno: i32) -> Result<(), String> {
    let arch = ARCH.try_into().map_err(failed)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(failed)?;
    seccompiler::apply_filter(&program).map_err(|error| format!("the filter of system calls cannot be set: {error}"))
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("the filter of system calls cannot be made: {error}")
}
