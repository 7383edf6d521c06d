//! Kueue's dialect: objects in, writes out.

#[cfg(test)]
mod binding;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod elastic;
#[cfg(test)]
mod events;
#[cfg(test)]
mod families;
#[cfg(test)]
mod fate;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod life;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod mig;
#[cfg(test)]
mod mig_laws;
#[cfg(test)]
mod milestones;
#[cfg(test)]
mod object;
#[cfg(test)]
mod placed;
#[cfg(test)]
mod pods_groups;
#[cfg(test)]
mod pods_plain;
#[cfg(test)]
mod preempting;
#[cfg(test)]
mod provisioning;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod seen;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod slices;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod totals;
#[cfg(test)]
mod visible;
#[cfg(test)]
mod words;
