//! A shell in a tmux terminal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A timeout for hangs only.
const PATIENCE: Duration = Duration::from_secs(120);

/// How text is entered into a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paste {
    /// As bracketed paste, for shells that enable it.
    Bracketed,
    /// As if it were typed.
    Typed,
}

/// An interactive shell, which stops when the test ends.
pub(super) struct Terminal {
    socket: PathBuf,
    folder: PathBuf,
    marks: usize,
}

impl Terminal {
    /// Starts a shell and waits for its prompt.
    pub(super) fn start(shell: &str, folder: &Path, env: &[(&str, String)]) -> Self {
        let mut terminal = Self {
            socket: folder.join("tmux"),
            folder: folder.to_owned(),
            marks: 0,
        };
        let args = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "180",
            "-y",
            "50",
            "-c",
        ];
        let command = format!("exec {shell}");
        let end = [folder.to_str().unwrap(), &command];
        terminal.tmux_with(env, &[&args[..], &end].concat());
        // A shell enables bracketed paste when it shows its prompt.
        terminal.wait_until_done();
        terminal
    }

    pub(super) fn paste(&mut self, text: &str, paste: Paste) {
        let file = self.folder.join("paste");
        std::fs::write(&file, text).unwrap();
        self.tmux(&["load-buffer", file.to_str().unwrap()]);
        match paste {
            Paste::Bracketed => self.tmux(&["paste-buffer", "-p"]),
            Paste::Typed => self.tmux(&["paste-buffer"]),
        };
        // fish and bash do not run pasted text until Enter is pressed.
        self.tmux(&["send-keys", "Enter"]);
    }

    /// Types a command and waits until the shell has run it, and so everything that was pasted before.
    pub(super) fn wait_until_done(&mut self) {
        self.marks += 1;
        let mark = self.folder.join(format!("done.{}", self.marks));
        self.tmux(&["send-keys", &format!("touch {}", mark.display()), "Enter"]);
        let start = Instant::now();
        while !mark.exists() {
            assert!(start.elapsed() < PATIENCE, "no prompt:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    fn tmux(&self, args: &[&str]) -> Output {
        self.tmux_with(&[], args)
    }

    /// Runs tmux. The first call starts the tmux server, whose environment the shells inherit.
    fn tmux_with(&self, env: &[(&str, String)], args: &[&str]) -> Output {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .envs(env.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("tmux");
        assert!(
            output.status.success(),
            "tmux {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .arg("kill-server")
            .output();
    }
}
