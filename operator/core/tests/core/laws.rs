//! Laws that hold whatever happens, on random input.

mod algebra;
mod events;
mod histories;
mod quantities;
mod record;
