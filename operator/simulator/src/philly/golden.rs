//! The reference answers: mean job completion times in hours, by another simulator with the same rules.

use crate::policy::Kind;

/// Who says so.
pub const NAME: &str = "reference replay, sizes known where the policy asks";

/// The answers for one virtual cluster.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// The virtual cluster.
    pub vc: &'static str,
    /// For each of [`PLAYED`] the mean completion time in hours, where there is an answer.
    pub mean_h: [Option<f64>; 10],
}

/// What is played.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// The policy.
    pub kind: Kind,
    /// Its name in benchmarks.
    pub slug: &'static str,
    /// What it costs to run a stopped job again, in seconds.
    pub restore_s: i64,
}

const fn played(kind: Kind, slug: &'static str, restore_s: i64) -> Played {
    Played { kind, slug, restore_s }
}

/// What is played on each virtual cluster.
pub const PLAYED: [Played; 10] = [
    played(Kind::Fcfs, "fcfs", 0),
    played(Kind::Easy, "easy", 0),
    played(Kind::Conservative, "conservative", 0),
    played(Kind::FirstFit, "first_fit", 0),
    played(Kind::Sjf, "sjf", 0),
    played(Kind::Srtf, "srtf", 0),
    played(Kind::Srsf, "srsf", 0),
    played(Kind::Las, "las", 0),
    played(Kind::Las, "las_62s", 62),
    played(Kind::Predicted, "predicted", 0),
];

const fn golden(vc: &'static str, answers: [f64; 8]) -> Golden {
    let [fcfs, easy, first_fit, sjf, srtf, service, las, las_62] = answers;
    let mean_h = [
        Some(fcfs),
        Some(easy),
        None,
        Some(first_fit),
        Some(sjf),
        Some(srtf),
        Some(service),
        Some(las),
        Some(las_62),
        None,
    ];
    Golden { vc, mean_h }
}

/// The three virtual clusters.
pub const GOLDEN: [Golden; 3] = [
    golden("103959", [136.05, 52.86, 56.01, 22.77, 19.99, 20.96, 28.09, 28.29]),
    golden("ee9e8c", [129.33, 96.40, 73.80, 50.89, 38.60, 38.52, 79.21, 79.55]),
    golden("b436b2", [472.81, 301.23, 32.44, 28.00, 6.90, 6.43, 11.39, 11.41]),
];
