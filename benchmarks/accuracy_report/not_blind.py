"""What was chosen after a look at answers that the report judges, so that a reader can discount it.

Everything else was chosen inside the training part of a fold.
"""

from __future__ import annotations

NOT_BLIND: tuple[str, ...] = (
    "How far a training step trusts the member that learned from cells of its job "
    "(`_CELLS_TO_TRUST` in `perfmodel/predictors/joint/joint.py`): after a look at five of the "
    "Lambda devices.",
    "The width of intervals of jobs on devices without training records "
    "(`_JOB_ON_NEW_DEVICE_VARIANCE`): after a look at the coverage of the timm lines; one number "
    "for all groups.",
    "How many trees say how hard a step is to predict, and that intervals of new jobs are not "
    "narrowed besides (`perfmodel/predictors/step_models/error_scale.py`): after a look at the "
    "two folds of `unseen-family`.",
    "That half precision of the RX 5700 is not learned from "
    "(`perfmodel/training/samples/emulated_precision.py`): after a look at the GTX 1080 Ti, left "
    "out.",
    "That training steps have a network of their own, and how long it learns "
    "(`perfmodel/predictors/step_models/mode_nets.py`): after a look at held-out devices of "
    "Lambda and at held-out families of timm training; its weight is chosen inside each fold.",
    "That cells of a job are recalled as residuals of the networks on a device without records, "
    "and the noise of its probes: after a look at the three GPUs of timm, each left out.",
    "How far records of a device in one mode, or under one compiler, count in others "
    "(`perfmodel/predictors/joint/device_beliefs.py`): after a look at Lambda's training and "
    "compiled inference on RTX 3090 and RTX 4090, each left out and probed in eager inference.",
    "That jobs on GPUs and CPUs are told apart (`perfmodel/predictors/joint/job_memory.py`), and "
    "that trees which are told nothing of a device are heard about those without records, how much "
    "(`_DEVICES_TO_HEAR` in `perfmodel/predictors/joint/known_devices.py`): after a look at the "
    "devices left out, what is locked aside; the weight was chosen among eight.",
    "The noise of a probe in `perfmodel probe-plan`: after a look at residuals of RTX 3090 "
    "and RTX 4090.",
    "Sorts of rows with settings of their own (`perfmodel/features/steps/row_sorts.py`): after a "
    "look at which families of timm were off in training; nothing was fitted on them.",
    "What attention without a fused kernel and resampling in channels-first cost "
    "(`perfmodel/features/steps/slow_paths.py`): after a look at nest, hiera and "
    "efficientformerv2 on RTX 3090, RTX 4090 and RTX PRO 6000; the forms come from the code "
    "of PyTorch.",
    "What a step of a recurrent layer waits for (same file): 20 us were read off layers alone on "
    "V100 and others (DeepBench, which no line asks about); how GNMT, Tacotron 2 and Sequencer "
    "were answered with it was looked at before it was taken, the locked fifth aside.",
    "That calls of the host overlap the work of a device "
    "(`perfmodel/predictors/step_models/node_network.py`): the exponent was chosen on a third "
    "of the devices left out at a time, the locked fifth aside; that CPUs are left out of it, "
    "after the arena and the lockbox had been judged once with them in, and after a look at "
    "left-out families of the shipped version, what is locked included.",
    "What GPUs find in their cache (`perfmodel/features/steps/memory_time.py`): its form, that "
    "results of training wait in the memory, and that CPUs are left out, after a look at RTX 3090, "
    "RTX 4090, V100 and RTX A4500, each left out, and at left-out families, the locked fifth "
    "aside; the rate is from microbenchmarks.",
    "What attention by its parts costs (same file): its bytes are counted, not fitted, but were "
    "compared with all of timm on RTX 3090, what is locked included; that NVIDIA's BERT writes its "
    "scores, and under apex in half precision, after a look at Lambda's devices outside the "
    "lockbox.",
    "That the encoders beside FasterTransformer are learned from: all their steps lie in the "
    "lockbox, and they and all others of T4 and A100-SXM4-40GB, which lie there too, were looked "
    "at.",
    "That operators alone are learned from, and not about launches: after a look at the same "
    "three GPUs, each left out. Where a card is left out, so are operators of all cards that "
    "carry its chip; whole steps of those stay in.",
    "That arithmetic is expected at the clock that a power limit leaves "
    "(`perfmodel/devices/power_limit.py`): its first form was seen on the lockbox before the "
    "arena, and mended after a look at Lambda's laptops; its exponent was never varied.",
    "Limits and grids of the kernel predictor: on the folds that are reported.",
    "Data-parallel steps: the structure of the equations was chosen with all published rows "
    "in sight; their constants are fitted without the device that is left out. The prior of "
    "machines whose links were observed was changed twice after a look at the rows it is "
    "judged on.",
    "Plans: the form of the equations for sharded training (power limit, cycles per score, "
    "backward of scores) was developed with the held-out errors of MPT in view; that attention "
    "runs at the rate of single warps, after a look at those of the H100.",
    "Splits of language models since 2022: that part of the exchange of tensor ranks hides was "
    "thought of after residuals of the models locked away had been looked at, and that a host "
    "waits for every expert after those of devices left out; both were taken for what they do "
    "outside of the lockbox, where nine forms were compared.",
    "Language models in training: how little predictions for one accelerator count beside the "
    "equations (a spread of 0.4), and that compiled steps need no factor, after a look at MPT and "
    "at torchtitan's Llamas.",
    "Operators of traces: which mechanisms there are (waits for sums, operands that lie unlike, "
    "calls beside others, norms of one kernel, limits of convolutions, the law where trees "
    "learned no such type) was read off the traces that are judged; the times of a launch and of "
    "a wait are from Vidur's table, the width of intervals of the law from types left out of its "
    "fit.",
    "Collectives: rows under 4 MiB of one source and sends of one card are kept out of the "
    "fit and of the first line, after a look at them; they have a line of their own.",
    "Memory: the weights of the fit and its margin were set by hand while watching the lines "
    "with a device left out; how the data of NCF is divided among replicas was chosen among "
    "four forms.",
    "Shared accelerators: how alike two jobs count was set by hand among about ten settings, "
    "all between 6.5 and 7.4 % on pairs left out; a quantile was changed after a look at both"
    " transfers.",
    "Published language models: which four constants of compiled steps stay open in the fit, and "
    "the load of the fullest expert, after a look at the rows of TPUs that are judged; the "
    "constants themselves are fitted without the device that is left out.",
    "Job types: the width of the prior was halved after a look at new jobs and at the other kind.",
    "Job types of which steps were observed: the shares of the guessed step, the deviations of "
    "the guess and the doubt from which completed cells count, each among three to five settings, "
    "with the lines of Sia and of Gavel in sight.",
    "Calibration: shapes of the prior, its terms that all steps share, its guesses, planned "
    "placements and the time of a host for one operator came after a look at all of Sia's "
    "tables; about ten such settings were compared by the errors that stand here. So were the "
    "degrees of freedom of what is peculiar to a job on a machine, the seconds that a log "
    "misplaces, and the term of one batch size.",
)
