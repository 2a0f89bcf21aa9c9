//! One effect that a call would have, by a stable name that policies match on.

/// Each intent's name, its effect, and whether the effect can be undone; sorted by name.
pub const EFFECTS: &[(&str, &str, bool)] = &[
    ("cloud.change", "write", false),
    ("cloud.destroy", "delete", false),
    ("cloud.read", "net", true),
    ("container.destroy", "delete", false),
    ("container.privileged", "privilege", true),
    ("container.run", "exec", true),
    ("db.delete_all", "delete", false),
    ("db.drop", "delete", false),
    ("disk.format", "delete", false),
    ("disk.overwrite", "write", false),
    ("exec.dynamic", "exec", true),
    ("exec.fork_bomb", "exec", false),
    ("exec.inline", "exec", true),
    ("exec.install", "exec", true),
    ("exec.obfuscated", "exec", true),
    ("exec.partial", "exec", true),
    ("exec.script", "exec", true),
    ("fs.delete", "delete", false),
    ("fs.delete.computed", "delete", false),
    ("fs.delete.outside", "delete", false),
    ("fs.delete.recursive", "delete", false),
    ("fs.delete.root", "delete", false),
    ("fs.delete.worktree", "delete", false),
    ("fs.erase", "delete", false),
    ("fs.list", "read", true),
    ("fs.permission", "write", true),
    ("fs.permission.root", "write", false),
    ("fs.read", "read", true),
    ("fs.write", "write", false),
    ("fs.write.system", "write", false),
    ("net.connect", "net", true),
    ("net.delete", "delete", false),
    ("net.fetch", "net", true),
    ("net.fetch_exec", "exec", false),
    ("net.metadata", "net", true),
    ("net.reverse_shell", "exec", false),
    ("net.upload", "net", false),
    ("net.upload.secret", "net", false),
    ("persist.cron", "persist", true),
    ("persist.git_hook", "persist", true),
    ("persist.service", "persist", true),
    ("persist.shell_init", "persist", true),
    ("persist.ssh_keys", "persist", true),
    ("privilege.account", "privilege", true),
    ("privilege.escalate", "privilege", true),
    ("privilege.shell", "privilege", true),
    ("process.kill_all", "exec", false),
    ("process.signal", "exec", false),
    ("publish.package", "net", false),
    ("resource.destroy", "delete", false),
    ("secret.export", "read", false),
    ("secret.read", "read", true),
    ("self.protect.agent", "privilege", true),
    ("self.protect.command", "privilege", true),
    ("self.protect.config", "write", true),
    ("service.change", "exec", true),
    ("system.defence_off", "privilege", true),
    ("system.shutdown", "exec", true),
    ("system.traces", "delete", false),
    ("vcs.delete_local", "delete", false),
    ("vcs.delete_remote", "delete", false),
    ("vcs.discard", "delete", false),
    ("vcs.fetch", "net", true),
    ("vcs.force_push", "write", false),
    ("vcs.force_push.lease", "write", false),
    ("vcs.push", "net", false),
    ("vcs.push_elsewhere", "net", false),
    ("vcs.remote_change", "net", true),
    ("vcs.rewrite_history", "write", false),
    ("vcs.skip_hooks", "exec", true),
    ("vcs.write", "write", true),
];

/// What a program's table entry says: an intent's name, what it is about, and where that lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// One of the names of [`EFFECTS`].
    pub name: &'static str,
    /// The path, host or name that it is about; may hold marks.
    pub target: String,
    /// Where that lies.
    pub scope: &'static str,
}

/// One effect of a call, as people and policies see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    /// One of the names of [`EFFECTS`].
    pub name: &'static str,
    /// read, write, delete, exec, net, privilege or persist.
    pub effect: &'static str,
    /// The path, host or name that it is about, `...` where only the shell would know.
    pub target: String,
    /// worktree, temp, home, root, system, device, outside, remote, cloud or unknown.
    pub scope: &'static str,
    /// Whose effect it is.
    pub program: String,
    /// The argument's path.
    pub attributed_to: String,
    /// Whether the effect can be undone from what is left.
    pub reversible: bool,
}

/// The effect of a name and whether it can be undone.
#[must_use]
pub fn effect_of(name: &str) -> Option<(&'static str, bool)> {
    EFFECTS
        .binary_search_by(|(known, _, _)| (*known).cmp(name))
        .ok()
        .and_then(|at| EFFECTS.get(at))
        .map(|(_, effect, reversible)| (*effect, *reversible))
}
