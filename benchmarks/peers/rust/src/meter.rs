//! CPU time and memory of this process, and the lines by which it speaks with the benchmark.

use std::fs::read_to_string;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};

pub type Commands = Lines<BufReader<Stdin>>;

pub fn commands() -> Commands {
    BufReader::new(stdin()).lines()
}

/// User and system time of all threads until now, in seconds.
pub fn cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Resident memory in bytes.
pub fn memory() -> f64 {
    let pages = read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split_whitespace().nth(1);
    resident.and_then(|one| one.parse().ok()).unwrap_or(0.0) * 4096.0
}

/// Prints what a phase took.
pub fn say(phase: &str, number: usize, spent: f64, memory: f64) {
    let line: Value = json!({"phase": phase, "number": number, "cpu": spent, "memory": memory});
    println!("{line}");
}
