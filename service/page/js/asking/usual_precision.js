// What people train with on an accelerator, where nobody says otherwise.

/** An fp16 rate that many times that of fp32 comes from units for matrices: work gains from it. */
const MATRIX_UNITS = 3;

/** Return the precision that is usual on an accelerator of the catalogue; fp32 on one that is not there. */
export function usualPrecision(accelerator) {
  if (!accelerator || accelerator.kind === "cpu") return "fp32";
  const { fp32 = 0, fp16 = 0, bf16 = 0 } = accelerator.peak_flops;
  if (bf16 > fp32) return "amp_bf16";
  return fp16 >= MATRIX_UNITS * fp32 && fp16 > 0 ? "amp_fp16" : "fp32";
}
