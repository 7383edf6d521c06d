//! Which of the free devices are preferred.

use std::collections::BTreeSet;

use proptest::prelude::*;
use whalezen_agent::{
    device::Uuid,
    plugin::{
        offer::{Offer, offers},
        preference::prefer,
        unit::ResourceName,
    },
    view::View,
};

use crate::ground::{broken, gpu_id, inventory, islands, mig, mig_id, node, profile};

fn ids(indices: &[u32]) -> Vec<String> {
    indices.iter().map(|&index| gpu_id(index).to_string()).collect()
}

fn offer(view: &View, resource: &ResourceName) -> Offer {
    offers(&inventory(view)).remove(resource).unwrap()
}

/// What is preferred of whole GPUs, as numbers.
fn gpus(islands_of: &[u32], available: &[u32], required: &[u32], size: usize) -> Vec<u32> {
    let offer = offer(&islands(islands_of), &ResourceName::gpu());
    let mut chosen = prefer(&offer, &ids(available), &ids(required), size)
        .iter()
        .map(|id| offer.unit(id).unwrap().index)
        .collect::<Vec<_>>();
    chosen.sort_unstable();
    chosen
}

const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn gpus_are_chosen_by_their_links() {
    for (what, islands, available, required, size, chosen) in [
        ("two of one island", &[4, 4][..], &ALL[..], &[][..], 2, &[0, 1][..]),
        ("the whole island that is left", &[4, 4], &[1, 2, 3, 4, 5, 6, 7], &[], 4, &[4, 5, 6, 7]),
        ("one breaks up the smaller rest", &[4, 4], &[1, 2, 3, 4, 5, 6, 7], &[], 1, &[1]),
        ("two come from where two are left", &[4, 4], &[0, 1, 2, 3, 6, 7], &[], 2, &[6, 7]),
        ("the island of what is there already", &[4, 4], &ALL, &[5], 2, &[4, 5]),
        (
            "two islands whole, those closer by, and the third stays whole",
            &[3, 3, 2],
            &ALL,
            &[],
            5,
            &[3, 4, 5, 6, 7],
        ),
        ("without NVLink the NUMA node decides", &[1; 8], &[0, 1, 4, 5, 6], &[], 3, &[4, 5, 6]),
        ("without anything the order does", &[1; 4], &[3, 2, 1, 0], &[], 2, &[0, 1]),
        ("nothing is nothing", &[4, 4], &ALL, &[], 0, &[]),
        ("all are all", &[4, 4], &ALL, &[], 8, &ALL),
        ("no more than there are", &[2], &[0, 1], &[], 5, &[0, 1]),
        ("what is required is not counted twice", &[4, 4], &ALL, &[0, 7], 2, &[0, 7]),
    ] {
        assert_eq!(gpus(islands, available, required, size), chosen, "{what}");
    }
}

#[test]
fn twenty_gpus_are_chosen_from_well_without_looking_at_every_choice() {
    // 184,756 choices of ten; the island of ten is the best.
    let all = (0..20).collect::<Vec<_>>();
    assert_eq!(gpus(&[6, 10, 4], &all, &[], 10), (6..16).collect::<Vec<_>>());
}

#[test]
fn instances_are_packed_where_fewest_are_free() {
    let one = "1g.10gb";
    let gpus =
        vec![mig(0, &[(one, 0), (one, 1), (one, 2)]), mig(1, &[(one, 0), (one, 1)]), mig(2, &[(one, 6)])];
    let offer = offer(&node(gpus), &ResourceName::mig(profile(one)));
    let names = |ids: &[Uuid]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let all = names(&[mig_id(0, 0), mig_id(0, 1), mig_id(0, 2), mig_id(1, 0), mig_id(1, 1), mig_id(2, 6)]);
    assert_eq!(prefer(&offer, &all, &[], 1), names(&[mig_id(2, 6)]));
    assert_eq!(prefer(&offer, &all, &[], 3), names(&[mig_id(2, 6), mig_id(1, 0), mig_id(1, 1)]));
    let begun = names(&[mig_id(0, 1)]);
    assert_eq!(
        prefer(&offer, &all, &begun, 2),
        names(&[mig_id(0, 1), mig_id(0, 0)]),
        "with what it has a part of"
    );
}

#[test]
fn what_is_unhealthy_or_unknown_is_chosen_last() {
    let mut view = islands(&[4]);
    view.gpus[0] = broken(view.gpus[0].clone());
    let offer = offer(&view, &ResourceName::gpu());
    let mut available = ids(&[0, 1, 2]);
    available.push("GPU-of-yesterday".into());
    assert_eq!(prefer(&offer, &available, &[], 2), ids(&[1, 2]));
    assert_eq!(prefer(&offer, &available, &[], 4).len(), 4, "the kubelet gets as many as it asks for");
}

proptest! {
    #[test]
    fn a_preference_is_of_the_right_size_of_what_is_available_and_with_what_is_required(
        sizes in prop::collection::vec(1..5_u32, 1..5),
        mask in any::<u32>(),
        must in any::<u32>(),
        size in 0..20_usize,
    ) {
        let offer = offer(&islands(&sizes), &ResourceName::gpu());
        let total = sizes.iter().sum();
        let available = (0..total).filter(|at| mask & (1 << at) != 0).collect::<Vec<_>>();
        let required = available.iter().copied().filter(|at| must & (1 << at) != 0).take(size).collect::<Vec<_>>();
        let chosen = prefer(&offer, &ids(&available), &ids(&required), size);
        let set = chosen.iter().cloned().collect::<BTreeSet<_>>();
        prop_assert_eq!(set.len(), chosen.len(), "none is chosen twice");
        prop_assert_eq!(chosen.len(), size.min(available.len()));
        prop_assert!(ids(&required).iter().all(|id| set.contains(id)));
        prop_assert!(set.iter().all(|id| ids(&available).contains(id)));
        let mut turned = ids(&available);
        turned.reverse();
        prop_assert_eq!(prefer(&offer, &turned, &ids(&required), size), chosen, "the kubelet's order is no matter");
    }

    #[test]
    fn no_island_is_broken_up_when_one_fits(sizes in prop::collection::vec(1..6_u32, 1..4), size in 1..6_usize) {
        let total = sizes.iter().sum();
        let all = (0..total).collect::<Vec<_>>();
        let chosen = gpus(&sizes, &all, &[], size);
        if sizes.iter().any(|&island| island as usize >= size) {
            let mut first = 0;
            let within = sizes.iter().any(|island| {
                let island = first..first + island;
                first = island.end;
                chosen.iter().all(|at| island.contains(at))
            });
            prop_assert!(within, "{chosen:?} of islands of {sizes:?}");
        }
    }
}
