// Text of every visible element with its colour and what lies behind it; marks of pictures and edges
// of controls as well. Colours are painted on a canvas: whatever they are written as, sRGB comes back.
(() => {
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    if (!element.checkVisibility({visibilityProperty: true}) || element.closest('.visually-hidden')) continue;
    const style = getComputedStyle(element);
    const name = `${element.tagName} .${element.getAttribute('class')} ${element.textContent.slice(0, 30)}`;
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const svg = element.closest('svg');
    if (own || element.matches('input, select')) {
      const colour = rgb(element.tagName === 'text' ? style.fill : style.color);
      if (!element.disabled) found.push(['text', name, colour, behind(svg ? svg.parentElement : element)]);
    }
    if (element.matches('input:not([type=radio]), select, .segments')) {
      found.push(['mark', name, rgb(style.borderTopColor), behind(element.parentElement)]);
    }
    if (svg && element.matches('.figure circle.dot, .figure rect:not(.track, .lacks, .band), .line, .roof, .whisker')) {
      const paint = element.matches('.line, .roof, .whisker') ? style.stroke : style.fill;
      found.push(['mark', name, rgb(paint), behind(svg.parentElement)]);
    }
  }
  return found;
})()
