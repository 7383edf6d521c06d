//! Small clusters with a history and a queue, made by a seed, on which a search and a bound can be compared.
//!
//! Racks of nodes of eight GPUs, of two models. Gangs were placed as the decision path places them until nothing fitted any more, and then
//! some ended, so what is free lies about as it does in life. Of those that are left some stay, some may move and some may be stopped. New gangs ask for more
//! than is free.

use whalezen_core::placement::{
    Ask, Cluster, Gang, GpuKind, Models, Node, Shape, TaskMix, Weights,
    improve::{Blocked, Job, JobId, Leave, Place, Resident, Snapshot, SnapshotError},
};

const MODELS: [&str; 2] = ["A100", "V100"];

/// The steps of `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        u32::try_from((u128::from(mixed) * u128::from(end)) >> 64).unwrap_or_default()
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.below(100) < chance
    }
}

/// The instance of a seed. It has up to `most_nodes` nodes.
pub fn instance(seed: u64, most_nodes: u32) -> Result<Snapshot, SnapshotError> {
    let mut dice = Dice(seed);
    let mut cluster =
        Cluster::new(nodes(&mut dice, most_nodes.max(2)), &TaskMix::default(), Weights::default())?;
    let gpus = |cluster: &Cluster| cluster.nodes().map(|(_, node)| node.free_gpu() / 1000).sum::<u32>();
    let mut snapshot = Snapshot::default();
    let mut ran = Vec::new();
    let mut misses = 0;
    let mut number = 0;
    while misses < 8 {
        let job = job(&mut dice, number);
        number += 1;
        let shape = cluster.shape(&job.shape)?;
        let gang = Gang { shape, count: job.count, min_count: job.count, widest: job.widest };
        match cluster.choose_gang(&gang).filter(|place| is_apart(&job, place)) {
            Some(place) => ran.push((job, shape, cluster.place_gang(shape, &place)?)),
            None => misses += 1,
        }
    }
    for (job, shape, choices) in ran {
        if dice.percent(35) {
            for choice in &choices {
                cluster.remove(shape, choice)?;
            }
            continue;
        }
        let leave = match dice.below(4) {
            0 => continue, // Others', of whom nothing is known but that they are there.
            1 => Leave::Stop,
            _ => Leave::Move,
        };
        let place = |choice: &whalezen_core::placement::Choice| {
            Some(Place { node: cluster.node(choice.node)?.name.clone(), devices: choice.devices })
        };
        let on = choices.iter().filter_map(place).collect();
        // Whoever may be stopped is below everybody else.
        let job = if leave == Leave::Stop { Job { priority: 0, weight: 1, ..job } } else { job };
        snapshot.residents.push(Resident { job, on, leave, since_checkpoint: 0, restore: 0 });
    }
    let free = gpus(&cluster);
    let mut asked = 0;
    while asked * 10 < free * 12 || snapshot.blocked.is_empty() {
        let job = job(&mut dice, number);
        number += 1;
        asked += job.count * job.shape.count();
        snapshot.blocked.push(Blocked { job });
    }
    snapshot.nodes = cluster.nodes().map(|(_, node)| node.clone()).collect();
    Ok(snapshot)
}

fn nodes(dice: &mut Dice, most: u32) -> Vec<Node> {
    let each = 2 + dice.below(most.min(8) - 1);
    let racks = 1 + dice.below((most / each).max(1));
    let mut nodes = Vec::new();
    for rack in 0..racks {
        let model = MODELS.get(usize::from(dice.percent(30))).copied().unwrap_or_default();
        let kind = GpuKind { model: model.into(), memory: 40_960 };
        let rack_name = format!("rack-{rack}");
        for at in 0..each {
            let node = Node::idle(&format!("node-{rack}-{at}"), kind.clone(), 8, 64_000, 65_536);
            nodes.push(node.within([rack_name.as_str()]));
        }
    }
    nodes
}

fn job(dice: &mut Dice, number: u64) -> Job {
    let gpus =
        [1, 1, 2, 4, 8, 8].into_iter().nth(usize::try_from(dice.below(6)).unwrap_or_default()).unwrap_or(1);
    let count = 1 + dice.below([16, 8, 4, 2].into_iter().nth(gpus_index(gpus)).unwrap_or(1));
    let models = if dice.percent(30) { Models::any_of(["A100"]) } else { Models::default() };
    let priority = 1 + dice.below(3);
    let apart = dice.percent(15).then(|| format!("apart-{number}").into());
    Job {
        id: JobId(number),
        priority: i32::try_from(priority).unwrap_or(1),
        weight: 1 << priority,
        shape: Shape::new(0, 0, Ask::Whole { count: gpus, memory: 0 }).on(models),
        count,
        min_count: count,
        widest: usize::from(dice.percent(30)),
        apart,
    }
}

fn gpus_index(gpus: u32) -> usize {
    usize::try_from(gpus.ilog2()).unwrap_or_default()
}

/// The decision path knows no such labels: of what it chooses only what keeps to them is taken.
fn is_apart(job: &Job, place: &whalezen_core::placement::GangPlacement) -> bool {
    job.apart.is_none() || place.spots.iter().all(|spot| spot.count == 1)
}
