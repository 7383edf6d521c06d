//! The page that `whalezen-sim run` writes, in a browser. Without Chromium the test says so and looks at nothing.

use std::{env, fs, path::Path, process::Command};

fn chromium() -> Option<&'static str> {
    let paths = env::var_os("PATH")?;
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| env::split_paths(&paths).any(|folder| folder.join(name).is_file()))
}

#[test]
fn a_browser_shows_the_page_and_needs_nothing_else() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-in-a-browser");
    let run = Command::new(env!("CARGO_BIN_EXE_whalezen-sim"))
        .args(["run", "--jobs", "60", "--gpus", "16", "--policies", "fcfs,srsf", "--out"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    for file in ["summary.json", "jobs.csv", "report.html"] {
        assert!(fs::metadata(folder.join(file)).unwrap().len() > 0, "{file}");
    }
    assert_eq!(fs::read_to_string(folder.join("jobs.csv")).unwrap().lines().count(), 1 + 2 * 60);
    let Some(browser) = chromium() else {
        eprintln!("SKIPPED: there is no Chromium on the PATH, so the page was opened in no browser");
        return;
    };
    let shown = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("browser").display()))
        .arg(format!("file://{}", folder.join("report.html").display()))
        .output()
        .unwrap();
    assert!(shown.status.success());
    let (page, log) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    for part in ["<h1>60 jobs on 16 GPUs</h1>", "<polyline", "Who runs where: SRSF", "</body>"] {
        assert!(page.contains(part), "{part}");
    }
    // What the page itself did wrong, or asked for and did not get, is a console message.
    let complaints: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
