"""A small data-parallel training loop: a real one in shape (ranks, NCCL, an optimiser), a toy in size.

Started by torchrun. STEPS is how long it runs, LEARNING_RATE what a sweep varies.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)

    torch.manual_seed(0)
    width = 4096 if on_gpu else 64
    model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).to(device)
    model = DistributedDataParallel(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=float(os.environ.get("LEARNING_RATE", "1e-4")))

    torch.manual_seed(rank)
    steps = int(os.environ.get("STEPS", "1000"))
    for step in range(1, steps + 1):
        batch = torch.randn(256, width, device=device)
        loss = nn.functional.mse_loss(model(batch), batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if rank == 0 and (step % 100 == 0 or step == steps):
            print(f"step {step}/{steps} on {world} ranks: loss {loss.item():.4f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
