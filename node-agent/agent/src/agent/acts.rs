//! What is done to a GPU: each act in the GPU's lane, with a deadline.

use std::time::Duration;

use tracing::Instrument as _;

use crate::{
    device::{DeviceError, Lane, Lanes, MigInstance, Uuid},
    layout::decide::Act,
};

/// How long an act may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Does it, and gives the instance that was made by it.
pub(super) async fn perform(
    lanes: &Lanes,
    gpu: &Uuid,
    act: &Act,
) -> Result<Option<MigInstance>, DeviceError> {
    let span = tracing::info_span!("mig step", %gpu, step = %act);
    let (lane, gpu, act) = (Lane::Gpu(gpu.clone()), gpu.clone(), act.clone());
    let done = match act {
        Act::SetMode(enabled) => {
            let call = lanes.call(lane, "changing the MIG mode", PATIENCE, move |devices| {
                devices.set_mig_mode(&gpu, enabled).map(|()| None)
            });
            call.instrument(span.clone()).await
        }
        Act::Destroy(seen) => {
            let call = lanes.call(lane, "destroying an instance", PATIENCE, move |devices| {
                devices.destroy(&gpu, &seen).map(|()| None)
            });
            call.instrument(span.clone()).await
        }
        Act::Complete(seen) => {
            let call = lanes.call(lane, "completing an instance", PATIENCE, move |devices| {
                devices.complete(&gpu, &seen).map(Some)
            });
            call.instrument(span.clone()).await
        }
        Act::Create(instance) => {
            let call = lanes.call(lane, "making an instance", PATIENCE, move |devices| {
                devices.create(&gpu, instance).map(Some)
            });
            call.instrument(span.clone()).await
        }
    };
    let _entered = span.entered();
    match &done {
        Ok(_) => tracing::info!("done"),
        Err(error) => tracing::warn!("{error}"),
    }
    done
}
