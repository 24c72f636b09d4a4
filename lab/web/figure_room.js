export class FigureRoom { constructor(root) { this.root = root; } async mount() { this.root.replaceChildren(); } unmount() {} }
