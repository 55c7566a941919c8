// How numbers are written.

export function fixed(value: number, digits = 3): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export function percent(value: number): string {
  const share = value * 100;
  if (share > 0 && share < 0.1) return "<0.1%";
  return `${share.toFixed(share >= 99.95 || share >= 10 ? 0 : 1)}%`;
}

export function scientific(value: number): string {
  if (value === 0) return "0";
  const [digits, power] = value.toExponential(1).split("e");
  return `${digits} × 10${superscript(Number(power))}`;
}

function superscript(power: number): string {
  const marks = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const digits = [...String(Math.abs(power))].map((digit) => marks[Number(digit)]).join("");
  return power < 0 ? `⁻${digits}` : digits;
}
