//! A Java process, which never outlives the test.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use hbase_local::Home;

/// Runs a program until this shell's input ends.
const TIED: &str = "\"$@\" </dev/null & echo $!; read _; kill -9 $!";

/// A Java process, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Java {
    shell: Child,
    pid: u32,
    log: PathBuf,
}

impl Java {
    /// Starts the class that the arguments begin with, with all jars of a folder that `make test`
    /// downloads.
    pub(crate) fn start(
        jars: &str,
        options: &[String],
        arguments: &[impl AsRef<OsStr>],
        log: PathBuf,
    ) -> Self {
        let jars = Home::from_env().unwrap().cache().join("jars").join(jars);
        assert!(jars.is_dir(), "no {}: run make test", jars.display());
        let out = File::create(&log).unwrap();
        let mut shell = Command::new("sh")
            .args(["-c", TIED, "sh"])
            .arg(java())
            .args([
                "-Xmx64m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ])
            .args(options)
            .arg("-cp")
            .arg(format!("{}/*", jars.display()))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(out)
            .spawn()
            .unwrap();
        let mut pid = String::new();
        let mut printed = BufReader::new(shell.stdout.take().unwrap());
        printed.read_line(&mut pid).unwrap();
        // The program prints its log to the same pipe.
        let mut copy = File::options().append(true).open(&log).unwrap();
        std::thread::spawn(move || std::io::copy(&mut printed, &mut copy));
        Self {
            shell,
            pid: pid.trim().parse().unwrap(),
            log,
        }
    }

    /// Returns what the program has printed.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }

    /// Suspends the process.
    pub(crate) fn suspend(&self) {
        let kill = format!("kill -STOP {}", self.pid);
        // `kill` is built into the shell; the program may not be installed.
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        self.kill();
    }
}

fn java() -> PathBuf {
    match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Path::new(&home).join("bin/java"),
        None => "java".into(),
    }
}
