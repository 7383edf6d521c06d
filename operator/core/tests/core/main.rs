//! The core through its public face: tables for rules, properties for laws, and faults that users met elsewhere.

#[cfg(test)]
mod assumptions;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod consumption;
#[cfg(test)]
mod declarations;
#[cfg(test)]
mod elastic;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod flavors;
#[cfg(test)]
mod forest;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod life;
#[cfg(test)]
mod order;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod preemption;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod topology;
#[cfg(test)]
mod tries;

/// The resource that most tests count in.
const GPU: &str = "nvidia.com/gpu";
