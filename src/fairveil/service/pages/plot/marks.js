export {plot, dot, ruleX, ruleY, lineY, text, barX} from "@observablehq/plot";
