//! Builds the program of `tests/java` once with Maven and javac, and keeps it in `target`.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

/// The built program, and the Java to run it with.
pub(super) struct Built {
    pub(super) java: PathBuf,
    pub(super) class_path: OsString,
    pub(super) coprocessor_jar: PathBuf,
}

/// The jar of the coprocessor `hbasetxn.AfterWrite`, for servers to load.
pub(super) const COPROCESSOR_JAR: &str = "after-write.jar";

/// The folder of the build: the binary of a test is in `debug/deps` there.
fn target() -> PathBuf {
    let binary = env::current_exe().unwrap();
    binary.ancestors().nth(3).unwrap().to_owned()
}

/// Builds the missing parts. Concurrent test binaries wait for each other.
pub(super) fn build() -> Built {
    let sources = Path::new(env!("REPOSITORY")).join("tests/java");
    let kept = target().join("java");
    fs::create_dir_all(&kept).unwrap();
    let kept = kept.canonicalize().unwrap();
    let lock = File::create(kept.join("lock")).unwrap();
    lock.lock().unwrap();

    let pom = sources.join("pom.xml");
    let jars = folder(&kept, "jars", &[&pom], |unfinished| {
        let mut maven = Command::new("mvn");
        maven
            .args(["-q", "-B", "--strict-checksums", "-Dstyle.color=never", "-f"])
            .arg(&pom)
            .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
            .arg(format!("-DoutputDirectory={}", unfinished.display()));
        run(&mut maven);
    });
    let files = files(&sources);
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let any_jar = jars.join("*");
    let classes = folder(&kept, "classes", &inputs, |unfinished| {
        let is_java = |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "java");
        let mut javac = Command::new(tool("javac"));
        // The manifests and annotations of the jars name missing files.
        javac
            .args(["-Xlint:all,-path,-classfile", "-d"])
            .arg(unfinished)
            .arg("-cp")
            .arg(&any_jar)
            .args(files.iter().filter(is_java));
        run(&mut javac);
        fs::copy(
            sources.join("src/log4j.properties"),
            unfinished.join("log4j.properties"),
        )
        .unwrap();
        let mut jar = Command::new(tool("jar"));
        jar.arg("--create")
            .arg("--file")
            .arg(unfinished.join(COPROCESSOR_JAR));
        for class in ["AfterWrite", "AfterWrite$Own"] {
            jar.arg("-C")
                .arg(unfinished)
                .arg(format!("hbasetxn/{class}.class"));
        }
        run(&mut jar);
    });
    Built {
        java: tool("java"),
        coprocessor_jar: classes.join(COPROCESSOR_JAR),
        class_path: env::join_paths([classes, any_jar]).unwrap(),
    }
}

/// Returns a folder that is named after its inputs, so that an existing one is current. It gets
/// that name when it is complete.
fn folder(kept: &Path, what: &str, inputs: &[&Path], make: impl FnOnce(&Path)) -> PathBuf {
    let mut digest = DefaultHasher::new();
    for input in inputs {
        fs::read(input).unwrap().hash(&mut digest);
    }
    let complete = kept.join(format!("{what}-{:016x}", digest.finish()));
    if !complete.is_dir() {
        let unfinished = kept.join(format!("{what}-unfinished"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).unwrap();
        }
        fs::create_dir(&unfinished).unwrap();
        make(&unfinished);
        fs::rename(&unfinished, &complete).unwrap();
    }
    complete
}

/// Returns all files of a folder, in an order that does not depend on the file system.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns a program of the JDK of `JAVA_HOME`, or else of `PATH`.
fn tool(name: &str) -> PathBuf {
    let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    home.map_or_else(|| name.into(), |home| Path::new(&home).join("bin").join(name))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("can't run {command:?}: {error}; the Java side needs Maven and a JDK")
    });
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
