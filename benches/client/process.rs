//! Contestants as processes, and the processor time and memory of processes.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use super::{
    setup::{CONF_DIR, Failure},
    workload::{Answer, Contestant, Request},
};

/// What the contestants connect to.
pub(crate) struct Target {
    pub(crate) uri: String,
    /// The variables that clients of a cluster with Kerberos or TLS need.
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) zookeeper_port: u16,
    pub(crate) reads: String,
    pub(crate) writes: String,
}

/// The Java options of the Java client. Those of Netty are from HBase's own scripts.
const JAVA_OPTIONS: [&str; 5] = [
    "-Xmx1g",
    "-XX:+UseParallelGC",
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
];

/// A contestant that performs one round on request, and exits with this process.
pub(crate) struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Its release, and what it runs on.
    pub(crate) description: String,
}

impl Process {
    /// Starts a contestant, on the first processor only if it is pinned.
    pub(crate) fn start(contestant: Contestant, target: &Target, pinned: bool) -> Result<Self, Failure> {
        let mut words = if pinned {
            ["taskset", "-c", "0"].map(OsString::from).to_vec()
        } else {
            Vec::new()
        };
        match contestant {
            Contestant::Ours | Contestant::Floor => {
                words.push(env::current_exe()?.into());
                words.extend(["--contestant", contestant.id(), &target.uri].map(OsString::from));
            }
            Contestant::Java => {
                words.push(java("java").into());
                words.extend(JAVA_OPTIONS.map(OsString::from));
                if let Some(path) = target.environment.get("KRB5_CONFIG") {
                    words.push(format!("-Djava.security.krb5.conf={path}").into());
                }
                let conf = target.environment.get(CONF_DIR).map(PathBuf::from);
                let class_path = env::join_paths(build()?.into_iter().chain(conf))?;
                words.extend(["-cp".into(), class_path, "Client".into()]);
                words.push(format!("hbase.zookeeper.property.clientPort={}", target.zookeeper_port).into());
            }
        }
        words.extend([&target.reads, &target.writes].map(OsString::from));
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            // The user's variable may lead to another cluster.
            .env_remove(CONF_DIR)
            .envs(&target.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Java warns that no logger is configured.
            .stderr(match contestant {
                Contestant::Java => Stdio::null(),
                Contestant::Ours | Contestant::Floor => Stdio::inherit(),
            })
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", words[0].display()))?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let mut process = Self {
            child,
            requests,
            answers: BufReader::new(answers.ok_or("no pipe from a contestant")?),
            description: String::new(),
        };
        process.description = process.line()?;
        if contestant == Contestant::Java {
            process.description += &format!(", {}", JAVA_OPTIONS[..2].join(" "));
        }
        Ok(process)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Performs one round.
    pub(crate) fn perform(&mut self, request: &Request) -> Result<Answer, Failure> {
        let requests = self.requests.as_mut().ok_or("no pipe to a contestant")?;
        writeln!(requests, "{}", serde_json::to_string(request)?)?;
        let answer: Answer = serde_json::from_str(&self.line()?)?;
        match answer.error {
            Some(error) => Err(format!("{request:?} failed: {error}").into()),
            None => Ok(answer),
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => Err("a contestant ended without an answer".into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It exits when its stdin ends.
        self.requests = None;
        drop(self.child.wait());
    }
}

/// Is the other side of [`Process`]: answers one request after another until stdin ends.
pub(crate) fn serve(
    description: &str,
    mut perform: impl FnMut(&Request) -> Result<Answer, Failure>,
) -> Result<(), Failure> {
    println!("{description}");
    for line in io::stdin().lines() {
        let answer = perform(&serde_json::from_str(&line?)?).unwrap_or_else(|error| Answer {
            error: Some(error.to_string()),
            ..Answer::default()
        });
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

/// Fetches the jars of the Java client, and compiles its program. Returns the class path.
fn build() -> Result<[PathBuf; 2], Failure> {
    let program = Path::new(env!("REPOSITORY")).join("benches/java/client");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client");
    let (jars, classes) = (built.join("jars"), built.join("classes"));
    if !jars.is_dir() {
        let unfinished = built.join("unfinished");
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-Dstyle.color=never", "-f"]);
        maven.arg(program.join("pom.xml"));
        maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", unfinished.display()));
        run(&mut maven)?;
        fs::rename(unfinished, &jars)?;
    }
    let jars = jars.join("*");
    let mut compiler = Command::new(java("javac"));
    compiler
        .arg("-nowarn")
        .arg("-d")
        .arg(&classes)
        .arg("-cp")
        .arg(&jars);
    run(compiler.arg(program.join("Client.java")))?;
    Ok([classes, jars])
}

/// Returns a program of the JDK of `JAVA_HOME`, or else of `PATH`.
fn java(program: &str) -> PathBuf {
    let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    home.map_or_else(
        || program.into(),
        |home| Path::new(&home).join("bin").join(program),
    )
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let output = command
        .output()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let text = [output.stdout, output.stderr].concat();
        Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&text)).into())
    }
}

/// The processor time that processes, and the machine as a whole, have used so far, in ticks of 10
/// ms.
pub(crate) struct Usage {
    at: Instant,
    machine: u64,
    processes: BTreeMap<i32, u64>,
}

impl Usage {
    const TICKS_PER_SECOND: f64 = 100.0;

    pub(crate) fn now(pids: &[i32]) -> Result<Self, Failure> {
        let processes = pids.iter().map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
            // The name of the process, in brackets, may have spaces.
            let fields = stat.rsplit_once(')').ok_or("no name in /proc")?.1;
            Ok((*pid, sum(fields, &[11, 12])?))
        });
        let stat = fs::read_to_string("/proc/stat")?;
        let all = stat.lines().next().and_then(|line| line.strip_prefix("cpu "));
        Ok(Self {
            at: Instant::now(),
            // user, nice, system and steal. Interrupts serve the calls that are measured.
            machine: sum(all.ok_or("no cpu in /proc/stat")?, &[0, 1, 2, 7])?,
            processes: processes.collect::<Result<_, Failure>>()?,
        })
    }

    /// Returns the seconds of these processes since then.
    pub(crate) fn seconds_since(&self, earlier: &Self, pids: &[i32]) -> f64 {
        let of = |usage: &Self| -> u64 { pids.iter().filter_map(|pid| usage.processes.get(pid)).sum() };
        of(self).saturating_sub(of(earlier)) as f64 / Self::TICKS_PER_SECOND
    }

    /// Returns the share of the machine that other processes had since then.
    pub(crate) fn foreign_since(&self, earlier: &Self, processors: usize) -> f64 {
        let pids: Vec<i32> = self.processes.keys().copied().collect();
        let all = (self.machine - earlier.machine) as f64 / Self::TICKS_PER_SECOND;
        let foreign = all - self.seconds_since(earlier, &pids);
        foreign.max(0.0) / ((self.at - earlier.at).as_secs_f64() * processors as f64)
    }
}

fn sum(fields: &str, wanted: &[usize]) -> Result<u64, Failure> {
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let values = wanted.iter().map(|index| {
        let field = fields.get(*index).ok_or("a field is missing in /proc")?;
        Ok(field.parse::<u64>()?)
    });
    values.sum()
}

/// Returns the resident memory of a process, in bytes.
pub(crate) fn resident(pid: i32) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(1024 * sum(line.ok_or("no VmRSS in /proc")?, &[0])?)
}

/// Moves all threads of a process to these processors.
pub(crate) fn pin(pid: i32, processors: &str) -> Result<(), Failure> {
    run(Command::new("taskset").args(["-a", "-c", "-p", processors, &pid.to_string()]))
}
