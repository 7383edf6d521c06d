//! The machine as text, in the manner of `nvidia-smi -L` and `nvidia-smi mig -lgi`.

use std::fmt::Write;

use whalezen_mig::ProfileName;

use crate::{
    host,
    machine::{Machine, client::Client, client::Place, compute::ComputeInstance, mig::GpuInstance},
    refusal::Refusal,
};

/// GPUs, their MIG devices, and who uses them.
pub fn devices(machine: &Machine, now: u64) -> Result<String, Refusal> {
    let mut text = String::new();
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let product = machine.model(index)?.product();
        line(&mut text, 0, &format!("GPU {index}: {product} (UUID: {})", gpu.uuid));
        if machine.present(index, now).is_err() {
            line(&mut text, 1, "fell off the bus");
        }
        if gpu.mig != gpu.mig_pending {
            let to = if gpu.mig_pending { "on" } else { "off" };
            line(&mut text, 1, &format!("MIG will be {to} after a reset"));
        }
        users(&mut text, machine, index, None);
        for (at, (instance, compute)) in machine.mig_devices(index).enumerate() {
            let name = device_name(machine, index, instance, compute)?;
            line(&mut text, 1, &format!("MIG {name} Device {at}: (UUID: {})", compute.uuid));
            users(&mut text, machine, index, Some(Place { gi: instance.id, ci: compute.id }));
        }
    }
    Ok(text)
}

/// GPU instances, one a line: GPU, name, id of the profile, id of the instance, placement.
pub fn instances(machine: &Machine) -> Result<String, Refusal> {
    let mut text = format!("{:>3}  {:<14}  {:>7}  {:>8}  PLACEMENT\n", "GPU", "NAME", "PROFILE", "INSTANCE");
    for (index, gpu) in machine.gpus.iter().enumerate() {
        for instance in &gpu.instances {
            let (profile, id) = (instance.profile, instance.id);
            let name = format!("MIG {}", profile_name(machine, index, profile)?);
            let placement = format!("{}:{}", instance.start, instance.size);
            line(&mut text, 0, &format!("{index:>3}  {name:<14}  {profile:>7}  {id:>8}  {placement}"));
        }
    }
    Ok(text)
}

/// The name of a compute instance as `nvidia-smi` has it: its GPU instance's, with its own slices before if it does not
/// have all.
pub fn device_name(
    machine: &Machine,
    gpu: usize,
    instance: &GpuInstance,
    compute: &ComputeInstance,
) -> Result<String, Refusal> {
    let name = profile_name(machine, gpu, instance.profile)?;
    let whole = compute.size >= u32::from(name.slices());
    Ok(if whole { name.to_string() } else { format!("{}c.{name}", compute.size) })
}

fn profile_name(machine: &Machine, gpu: usize, profile: u32) -> Result<ProfileName, Refusal> {
    Ok(machine.geometry(gpu)?.by_id(profile).ok_or(Refusal::NotFound)?.name)
}

fn users(text: &mut String, machine: &Machine, gpu: usize, place: Option<Place>) {
    let here = |client: &&Client| client.instance == place && host::is_alive(client);
    for client in machine.clients_of(gpu).filter(here) {
        line(text, 1 + usize::from(place.is_some()), &format!("used by process {}", client.pid));
    }
}

fn line(text: &mut String, depth: usize, what: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{:1$}{what}", "", 2 * depth);
}
